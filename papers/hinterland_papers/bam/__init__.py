"""BaM (Mailthody 2022): its ways of giving a traversal's work to warps, over edges on storage, and which suits a graph."""
