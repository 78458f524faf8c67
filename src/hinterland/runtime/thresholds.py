"""Numbers that decide how work is cut, how much is under way and which of two ways is taken, and what each stands on: it was
measured, it is derived, or it is a guess. docs/notes/thresholds.md says how they were measured; numbers of C++ are in
include/hinterland/core/thresholds.hpp and native/core/thresholds.hpp."""

# Elements, entries, bytes that a loop goes through together, which bounds the memory that takes.
CHUNK = 1 << 20  # elements. Derived: 8 MiB, 2 ms at 4 GB/s, beside some 20 us of a turn in Python
LONG_CHUNK = 1 << 22  # elements. Derived: 32 MiB, which bounds memory; a turn in Python is a thousandth of it
LONGEST_CHUNK = 1 << 23  # edges as pairs. Derived: 64 MiB, likewise
NPY_EDGES = 1 << 21  # of two elements, as LONG_CHUNK. Derived likewise
GPU_CHUNK = 1 << 26  # elements of a check on a GPU. Derived: masks of 64 MiB; 0.2 ms, beside 10 us of a launch
COPIED_BYTES = 64 << 20  # that are copied or summed at a time. Derived: 20 ms at 3 GB/s; a turn is a thousandth
BOUNCE_BYTES = 32 << 20  # on the way to a GPU, or back. Measured, a tier: 4 MiB 1.39, 8 1.23, 128 1.01, 512 1.02
FEATURE_BYTES = 256 << 20  # of features made at once. Derived: 5 ms of a link of 55 GB/s, beside 40 us of a launch and a copy
FEWEST_OFFSETS = 1 << 12  # vertices whose offsets are looked at together. Guess

# Memory.
ALWAYS_FITS = 1 << 24  # bytes taken without asking what is free. Measured: to ask takes 0.2 ms, to touch as many 3.2
LEAST_FALLEN = 2 << 30  # bytes of GPU memory. Measured: another process that begins takes up to 674 MiB
FALLEN_SHARE = 64  # one part in so many of managed memory. Derived: its page tables take 1/512, pages that move nearly all
KEPT_SHARE = 32  # one part in so many of host memory is left to everything else. Guess
HELP_ROWS = 1 << 16  # of a gather that the CPU may help with. Derived: of fewer a GPU reads all in 2 ms
HELP_SECONDS = 1.5e-4  # that help takes to begin. Guess
SPLIT_SECONDS = 6e-4  # that rows take to be dealt out between GPU and CPU. Derived: two sorts of 0.11 ms, and ten launches
HELP_GAIN = 0.9  # of the GPU's time, below which it is helped. Guess
HELP_BESIDE = 0.5  # likewise, beside training, which needs cores too. Measured: at 0.8 a batch took 1.2 times as long
HELP_SHARE = 0.8  # of its share that a GPU is given at once; the rest goes to who is ready. Guess
HELP_PART = 4 << 20  # bytes that threads pack, and then are copied. Derived: 100 us at 40 GB/s
HELP_STAGED = 256 << 20  # bytes in GPU memory that wait for their places. Derived: 7 ms at 35 GB/s, beside 0.2 to begin anew
HELP_LEAST = 1 << 19  # the fewest. Guess
HELP_PARTS = 8  # pinned, of each GPU. Measured: none of 4 to 16, of 1 to 4 MiB, is best (gather-on-h200.md)
HELP_COPIED = 2  # of them are being copied. Derived: the copy engine is faster than those who pack
HELP_PAUSE = 1.0  # seconds without help, once the CPU was slower than the GPU alone. Guess
LONGEST_PAUSE = 64.0  # seconds: a pause is twice as long as the one before. Derived: a try that takes 1 s more takes 1/64
LITTLE_SHARE = 4  # of what is free, one part in so many is taken for what is of use but not needed. Guess
LOAD_BLOCKS = 8  # of loads, which fill a link. Measured: 4 0.67 to 1.00 of the best, 8 0.96 to 1.00 (gather-on-h200.md)
LOG_PLACES = 2  # of LRU, for each slot. Derived: all move up once a batch has asked for as many rows as there are slots
BULK_BLOCKS = 2  # of bulk copies, likewise. Measured: 0.95 to 1.00 with whole lines of 512 to 4,096 B, 1 0.60 to 0.81

# Graphs.
HISTORY_SHARE = 8  # betweenness: one number in so many vertices for the way back, on a GPU. Guess
BESIDE = 8  # part of the free memory that a cache of storage takes beside others, if no budget says more. Guess
STORED_BYTES = 4 << 20  # of an array on storage, read together. Derived: a 64th of HOST_BUDGET
WEIGHTS_SAMPLED = 1 << 20  # of which the mean is taken. Derived: it is then off by a thousandth of their deviation
PAIRS_CHECKED = 1 << 16  # that a check looks at together. Guess
ROWS_MULTIPLIED = 1 << 10  # of a matrix, that a check multiplies together. Guess
PULLED_SHARE = 8  # scores: a step pulls where one vertex in so many gives. Measured: 1 to 128 take 0.99 to 1.01
SORTED_ENTRIES = 1 << 28  # entries sorted at once, if there is room. Measured: 2^25 take 1.5 to 2.7, 2^30 0.90 to 1.00
LEAST_SORTED = 1 << 20  # the fewest: of fewer the CPU is faster. Guess
MOST_SORTED = 1 << 30  # the most. Derived: 64 GiB of 64 bytes each, half of an H200
MOST_PASSES = 32  # times that edges are drawn before a piece is larger than the first. Guess
LEFT_SHARE = 10  # one part in so many of what is free is left so. Guess

# Files.
TEXT_BYTES = 16 << 20  # in memory at a time, of all threads' pieces. Guess
LEAST_TEXT = 1 << 20  # the fewest of them. Guess
TEXT_SHARE = 32  # one part of a file in so many, between the two. Guess
METIS_BYTES = 2 << 20  # of lines that are read together. Derived: they take up to 20 times that, 40 MiB
CSV_LINES = 1 << 16  # that are parsed together. Guess
HEAD_BYTES = 1 << 16  # of a text, to tell what it is. Guess
HEAD_LINES = 50  # of it, likewise. Guess
NPY_HEADER = 1 << 16  # bytes, at most. Derived: real ones have about 100, and numpy reads no more than 10,000 by itself
DATASET_HEADER = 1 << 20  # bytes, at most. Guess
SMALL_ARRAY = 1 << 13  # bytes of an array that is read as a whole, such as a shape. Guess
SPARSE_VERTICES = 1 << 22  # of fewer, a graph almost without edges is made. Derived: offsets of 32 MiB, which any machine has
SPARSE_RATIO = 256  # vertices of an edge, in a graph almost without edges. Guess
BLOCKS_CHECKED = 8  # of checksums, read together. Derived: two turns of a thread (kBlocksSummed)

# Storage.
HOST_BUDGET = "256MiB"  # of a cache of storage, unless said. Guess
DEVICE_BUDGET = "256MiB"  # of a device's memory for a file's pages, unless said. Guess
TRANSPOSED_BYTES = 256 << 20  # of a file, written row by row at a time. Derived: 220 KiB of each of 300 float32 columns
EXPECTED_SHARE = 16  # of a cache's bytes, one part in so many for what is known of batches. Guess
TRANSFER_DEPTH = 128  # of a thread. Measured: 127.5 are under way in the mean, reads are 0.9 of a disk (storage-on-2-cores.md)
CONTROLLER_DEPTH = 256  # of its thread. Measured: 0.93 of io_uring's reads, as with 128 (storage-on-h100.md)

# Samples, training, full-graph passes.
MOST_AHEAD = 1 << 30  # bytes for any outcome of a batch. Measured: none 1.00 to 1.72, 128 MiB 1.00 to 1.11, 8 GiB 0.96 to 1.06
STEPS_TOGETHER = 1 << 24  # of walks, made and counted together. Derived: 128 MiB
LOADER_DEPTH = 2  # batches that may wait after each stage. Measured: 1 0.99, 4 1.02, 8 1.00 (an epoch beside small steps)
BATCH_BUFFERS = 3  # of replayed batches. Derived: one is trained on, one is gathered, one is sampled
ENVELOPE_BATCHES = 8  # that give the first envelope. Derived: their deviation is known to a quarter, 1 / sqrt(2 * 7)
OVERFLOW_SHARE = 0.01  # of batches, above which it grows. Derived: one that is made without a graph takes about two others
COUNTS_KEPT = 1 << 10  # batches that give the next one. Derived: their deviation is known to 2 %; 64 KiB of a checkpoint
STEADY_BATCHES = 64  # of either half, that rank first. Measured: rows are served as by 2 epochs (training-on-h200.md)
STEADY_RATE = 0.002  # that twice as many have to add to its hit rate. Measured likewise
TRIAL_BYTES = 1 << 30  # of lists, to see what kept ones save. Derived: 20 ms of a link of 50 GB/s
PLAN_BYTES = 128  # of GPU memory a vertex, to rank on the GPU. Derived: two sorts, and eight arrays of 4 to 8 bytes
UNSTEADY_STEPS = 8  # of training that change what a graph would not see, one after another, before none is captured. Guess
STEP_BYTES = 1 << 30  # of a step of inference on a CPU. Guess
STRATEGIES_TRIED = 4.0  # times the quickest. Measured: no strategy that was best was predicted slower (fullgraph-on-h200.md)
SHAPES_TRIED = 1.25  # times the best. Measured: what is found is within 1.5 % of the best of all shapes (fullgraph-figures.md)
CALLS_COMPARED = 64  # of processes. Derived: more than a step makes of 16 layers, of two exchanges each way
HOST_BLOCK_BYTES = 3 << 30  # of a block in host memory. Derived: 60 ms of a link of 55 GB/s, beside 0.3 that the host queues it
HOST_BLOCK_SHARE = 2  # one part of the room in so many for blocks; the rest for what lies between passes. Guess
CPU_RATE = 5e9  # bytes a second that a CPU reads, for predictions. Guess
CPU_STEP = 2e-5  # seconds between two loops of a CPU. Guess
TRACE_AFTER = 32  # steps. Derived: four times the 8 batches that give captured steps their shapes
TRACE_STEPS = 20  # in a timeline. Derived: some 10 MB of 250 launches a step, which viewers take
BINDING_SHARE = 0.85  # of an epoch, that a stage is at work which binds it. Derived: a loader keeps the slowest one at 0.9 to 1

# Queries.
ENGINE_ROWS = 1 << 17  # that a thread of the engine takes. Derived: DuckDB's row group has 122,880
QUERY_BYTES = 256 << 20  # of a chunk on a GPU. Measured: 16 MiB 1.04, 64 0.99 to 1.00, 1 GiB 1.00 to 1.01
REQUEST_BYTES = 11 << 10  # that a disk brings while it finds one page more. Derived: 85,000 pages a second beside 1.28 GB/s
CODES_WAITING = 1 << 18  # rows whose codes wait for a room. Derived: four times the 65,536 values that codes tell apart

# What is measured on a machine, and the demo.
SEQUENTIAL_THREADS = 8  # of a disk. Measured: 1, 8 and 64 read 2.2, 3.8 and 4.5 GB/s by MiB (the disk of an H200 machine)
LEAST_WRITTEN = 64 << 20  # bytes to a disk. Derived: two requests for each thread (kSequentialBytes)
DISK_RATE = 2e9  # bytes a second of a disk that was not measured. Guess
DISK_LEFT = 1 << 30  # bytes of a disk that stay free. Guess
LEAST_COPIED = 64 << 20  # bytes, where memory is short. Derived: twice a third cache of 32 MiB
BUSY_SHARE = 0.2  # of the cores, from which others are said to use them. Guess
LOOK_SECONDS = 0.25  # for that. Derived: 25 ticks of 10 ms, in which the system counts
DEMO_TABLE_BYTES = 4 << 30  # of features. Derived: 4 s where memory is filled at 1 GB/s
DEMO_ROWS = 1 << 20  # that are gathered. Derived: half a second at 1 GB/s
