"""Keeps a process that trains or translates for hours at the memory it had after its first minutes.

Two things grow otherwise. oneDNN keeps 1,024 compiled products, and PyTorch as many of its own, one
for each shape of rows: hundreds of megabytes. And between them the allocator's freed memory lies in
pieces, which go back to the system only when asked for.
"""

import ctypes
import os

KEPT_PRODUCTS = 64  # without any limit, tiny models translate 2 % faster, larger ones no faster
CAPACITIES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")  # oneDNN's, PyTorch's

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # numbers of glibc's malloc.h


def keep_few_products() -> None:
    """Bound both caches, unless the user did; works until the first product has been computed."""
    for name in CAPACITIES:
        os.environ.setdefault(name, str(KEPT_PRODUCTS))


def return_freed_memory() -> None:
    """Give the system back what the allocator holds without need, where it can: with glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def keep_freed_memory() -> None:
    """Keep what is freed for the next step, where that can be said: with glibc.

    Each step of a training needs as much as the one before. To give it back and to get it anew,
    page by page, took 3 % of a tiny model's time in float32, and 5 % in bfloat16.
    """
    choose = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if choose is not None:
        choose(TRIM_THRESHOLD, -1)  # never
        choose(MMAP_MAX, 0)  # no piece so large that it is mapped, and given back, alone
