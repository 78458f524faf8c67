#!/usr/bin/env bash
# The install line that README.md prints, in a fresh environment that has torch: torch stays, and what was installed runs elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
LINE=$(sed -n "s/^\(pip install '\.\[[a-z,]*\]'\).*/\1/p" README.md)
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT
python3 -m venv "$FOLDER/venv"
export PATH="$FOLDER/venv/bin:$PATH" PIP_QUIET=1 PIP_CONSTRAINT=$PWD/constraints.txt
pip install torch
TORCH=$(pip freeze | grep '^torch==')
eval "${LINE:?README.md prints no install line}"
grep -qx "$TORCH" <(pip freeze) || { echo "$LINE replaced $TORCH"; exit 1; }
cd "$FOLDER"
hinterland generate kronecker --scale 10 --output g.hl
hinterland bfs g.hl --source random --verify
python -c "import networkx as nx; print(nx.pagerank(nx.path_graph(3), backend='hinterland'))"
