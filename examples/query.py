"""A question to a table in a file: which rows match, and what of them. A GPU answers as well; see docs/query.md."""

import os
import tempfile

import pyarrow as pa
import pyarrow.feather

import hinterland as hl

folder = tempfile.TemporaryDirectory()  # goes with its files when the program ends
path = os.path.join(folder.name, "trips.arrow")
color = pa.array(["yellow", "green"] * 500).dictionary_encode()
trips = pa.table({"distance": [i / 20 for i in range(1000)], "total": list(range(1000)), "color": color})
pyarrow.feather.write_feather(trips, path, compression="uncompressed")

found = hl.query(path).filter("distance >= 30 and color != 'green'").group_by("color").agg("sum(total)", "count()")
print(found.rows)  # [{'color': 'yellow', 'sum(total)': 159800, 'count()': 200}]
