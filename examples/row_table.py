"""A small transformer serves with n-gram embeddings that lie in host memory: decoding steps are one graph on a GPU."""

from functools import partial

import torch

import hinterland as hl

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
VOCABULARY, NGRAMS, WIDTH, LAYERS, SEQUENCES, STEPS = 512, 100_000, 64, 2, 4, 12

# A table of n-grams for each layer: rows of 64 bytes in float8, and a scale for each.
tables = [hl.UnifiedTensor.from_tensor(torch.randn(NGRAMS, WIDTH).to(torch.float8_e4m3fn)) for _ in range(LAYERS)]
scales = [torch.rand(NGRAMS) / 4 for _ in range(LAYERS)]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.ngrams = hl.nn.RowTable(tables, slots=4096, device=device, dtype=torch.float32, scales=scales)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0, batch_first=True) for _ in range(LAYERS)
        )
        self.register_buffer("factors", torch.tensor([31, 1009, 65537]))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, context):  # [sequences, 3]: the last three tokens
        rows = (context * self.factors).sum(dim=1) % NGRAMS  # a hash of the trigram
        memories = self.ngrams(rows.expand(LAYERS, -1))  # [layers, sequences, width]: all layers in one launch
        hidden = self.tokens(context)
        for layer, memory in zip(self.layers, memories, strict=True):
            hidden = layer(hidden + memory[:, None])
        following = self.head(hidden[:, -1]).argmax(dim=1)
        context.copy_(torch.cat([context[:, 1:], following[:, None]], dim=1))


model, context = Model().to(device).eval(), torch.randint(0, VOCABULARY, (SEQUENCES, 3), device=device)
step, texts = partial(model, context), []
with torch.inference_mode():
    if device == "cuda":
        graph, stream, first = torch.cuda.CUDAGraph(), torch.cuda.Stream(), context.clone()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # what a first call makes
            step()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            step()
        context.copy_(first)
        step = graph.replay
    for _ in range(STEPS):
        step()
        texts.append(context[:, 2].clone())
of, held = sum(table.nbytes for table in tables), model.ngrams.held_bytes
print(f"{SEQUENCES} sequences of {len(texts)} tokens; of {of >> 10} KiB of tables {held >> 10} KiB are on {device}")
print(torch.stack(texts, dim=1)[0].tolist())
