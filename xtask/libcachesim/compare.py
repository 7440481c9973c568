"""Hits of `cosm lab simulate` beside those of libCacheSim (the Python package libcachesim), on the same requests.

Each trace is taken twice: with its sizes, and with all objects of one byte, so that a cache of N bytes holds N objects.
The exit status is 1 if a policy that must have as many hits has others.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import time

import libcachesim

# Points that hits may differ by where objects have sizes; where they are of one byte, nothing. Two reasons make 2Q and S3-FIFO
# differ a little: libCacheSim forgets a ghost that is asked for with a size that is not taken, and holds 2Q's Am to three quarters.
SAME, NEAR = 0.0, 0.25
# Ours, theirs, and how near hits must be, if they must.
POLICIES = [
    ("lru", "LRU", SAME),
    ("fifo", "FIFO", SAME),
    ("clock", "Clock", SAME),
    ("sieve", "Sieve", SAME),
    ("s3-fifo-libcachesim", "S3FIFO", NEAR),
    ("2q", "TwoQ", NEAR),
    ("s3-fifo", "S3FIFO", None),
    ("arc", "ARC", None),
    ("gdsf", "GDSF", None),
    ("w-tinylfu", "WTinyLFU", None),
    ("belady", "Belady", None),
]
# Of the bytes or the objects of a trace.
SHARES = [0.005, 0.02, 0.1]
RECORD = struct.Struct("<IQIq")


def theirs(trace, policy, size):
    """Hits, and seconds of the processor, reading included."""
    reader = libcachesim.TraceReader(trace, libcachesim.TraceType.ORACLE_GENERAL_TRACE, libcachesim.ReaderInitParam())
    cache = getattr(libcachesim, policy)(size)
    began = time.process_time()
    misses, _ = cache.process_trace(reader)
    return misses, time.process_time() - began


def ours(cosm, trace, policy, size):
    command = [cosm, "lab", "simulate", "--trace", trace, "--format", "oracle-general", "--size-changes", "ignore"]
    command += ["--policies", policy, "--sizes", str(size), "--json"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    row = found["rows"][0]
    return row["hits"], found["read_seconds"] + row["seconds"]


def requests_of(path):
    """What both are given: requests with a size; and the bytes and the number of objects."""
    with open(path, "rb") as file:
        records = [record for record in RECORD.iter_unpack(file.read()) if record[2] > 0]
    first = {}
    for _, key, size, _ in records:
        first.setdefault(key, size)
    return records, sum(first.values()), len(first)


def write(path, records, unit):
    """Numbers of the next requests are made anew, as some were left out."""
    nexts, last = [-1] * len(records), {}
    for number in range(len(records) - 1, -1, -1):
        nexts[number] = last.get(records[number][1], -1)
        last[records[number][1]] = number
    with open(path, "wb") as file:
        for (when, key, size, _), coming in zip(records, nexts):
            file.write(RECORD.pack(when, key, 1 if unit else size, coming))


def main(cosm, traces):
    different = 0
    print(f"libcachesim {libcachesim.__version__}; seconds are of the processor, reading included, medians of three")
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces:
            converted = os.path.join(folder, "all")
            subprocess.run([cosm, "lab", "convert", "--trace", trace, "--to", "oracle-general", "--out", converted], check=True)
            records, total, objects = requests_of(converted)
            for unit in [False, True]:
                path = os.path.join(folder, "same")
                write(path, records, unit)
                what = "objects of one byte" if unit else f"{total} bytes"
                print(f"\n{os.path.basename(trace)}: {len(records)} requests for {objects} objects, {what}")
                print(f"{'policy':<20} {'size':>12} {'hits':>9} {'libCacheSim':>11} {'more':>7} {'points':>7} {'M/s':>6} {'theirs':>6}")
                for policy, name, near in POLICIES:
                    for share in SHARES:
                        # libCacheSim ends itself where a tenth is nothing.
                        size = max(int((objects if unit else total) * share), 10)
                        near = SAME if unit and near is not None else near
                        different += row(cosm, path, len(records), (policy, name, near), size)
    print(f"\n{different} differ that must not" if different else "\nnone differs that must not")
    return 1 if different else 0


def row(cosm, path, requests, policy, size):
    """Prints a row; 1 if it is not as it must be."""
    policy, name, near = policy
    runs = [(ours(cosm, path, policy, size), theirs(path, name, size)) for _ in range(3)]
    (hits, _), (misses, _) = runs[0]
    other = round((1 - misses) * requests)
    seconds = [sorted(run[which][1] for run in runs)[1] for which in (0, 1)]
    speeds = [requests / max(taken, 1e-9) / 1e6 for taken in seconds]
    points = 100 * (hits - other) / requests
    wrong = near is not None and abs(points) > near
    mark = "  differs" if wrong else ""
    print(f"{policy:<20} {size:>12} {hits:>9} {other:>11} {hits - other:>7} {points:>7.2f} {speeds[0]:>6.1f} {speeds[1]:>6.1f}{mark}", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
