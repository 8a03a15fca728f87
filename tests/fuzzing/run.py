"""Read mutated files by the ten thousand and write the table: ``make fuzz``.

Each reader runs in a process of its own, so that a crash is seen and known by its file; a file that
takes longer than its limit is a hang. The same numbers give the same files.
"""

import argparse
import collections
import gc
import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LIMIT = 20
"""Seconds for a file."""
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "robustness.md"
START, END = "<!-- fuzz: made by make fuzz -->", "<!-- end of fuzz -->"
COLUMNS = ("files", "valid", "refused", "raw", "crash", "hang")


class Hang(BaseException):
    """A file took too long."""


def child(name, start, stop, progress, keep):
    """Read the files of one reader, telling in a file how far it is."""
    from tests.fuzzing.readers import READERS, mutant, outcome

    def too_long(*_):
        raise Hang

    signal.signal(signal.SIGALRM, too_long)
    gc.freeze()  # collecting garbage, as a reader does, would look at all the libraries each time
    reader = READERS[name]
    counts, shown = collections.Counter(), {}
    with tempfile.TemporaryDirectory() as directory:
        contents = reader.seeds(Path(directory))
        path = Path(directory) / f"file{reader.suffix}"
        for number in range(start, stop):
            content = mutant(reader, contents, name, number)
            path.write_bytes(content)
            progress.write_text(json.dumps([number, dict(counts)]))
            signal.alarm(LIMIT)
            try:
                found = outcome(reader, path)
            except Hang:
                found = "hang"
            except BaseException as error:
                found = "raw"
                where = traceback.extract_tb(error.__traceback__)[-1]
                key = f"{type(error).__name__} {where.filename}:{where.lineno}"
                shown.setdefault(key, f"{number}: {error!r:.200}")
            finally:
                signal.alarm(0)
            counts[found] += 1
            if found in ("raw", "hang"):
                (keep / f"{name} {number}{reader.suffix}".replace("/", "_")).write_bytes(content)
    for key, text in shown.items():
        print(f"{name}: {key}: {text}", file=sys.stderr)
    progress.write_text(json.dumps([stop, dict(counts)]))


def run(name, files, keep):
    """Read all files of one reader, going on behind one that ends the process."""
    counts, start = collections.Counter(files=files), 0
    with tempfile.TemporaryDirectory() as directory:
        progress = Path(directory) / "progress.json"
        while start < files:
            progress.write_text(json.dumps([start, {}]))
            command = [sys.executable, "-m", "tests.fuzzing.run", "--child", name, "--start", start]
            command += ["--files", files, "--progress", progress, "--keep", keep]
            process = subprocess.Popen([str(part) for part in command], cwd=ROOT)
            ended = _wait(process, progress)
            number, found = json.loads(progress.read_text())
            counts.update(found)
            if number < files:
                counts["crash" if ended else "hang"] += 1
                print(f"{name}: file {number} ended the process: {process.returncode}", flush=True)
            start = number + 1
    print(name, dict(counts), flush=True)
    return counts


def _wait(process, progress):
    """Wait for a process; kill it, and tell so, when it has stood still for three limits."""
    while True:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            if time.time() - progress.stat().st_mtime > 3 * LIMIT + 60:
                process.kill()
                process.wait()
                return False
        else:
            return True


def table(results):
    lines = [
        "| file | files | read | refused with a sentence | raw exceptions | crashes | hangs |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    total = collections.Counter()
    for name, counts in [*results.items(), ("all", total)]:
        lines.append(f"| {name} | " + " | ".join(f"{counts[each]:,}" for each in COLUMNS) + " |")
        total.update(counts)
    return "\n".join(lines)


def rows(text):
    """Read the rows of a table back."""
    found = {}
    for line in text.splitlines()[4:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(COLUMNS) + 1:
            numbers = (int(cell.replace(",", "")) for cell in cells[1:])
            found[cells[0]] = collections.Counter(dict(zip(COLUMNS, numbers, strict=True)))
    return found


def main():
    from tests.fuzzing.readers import READERS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=8000, help="files for each reader")
    parser.add_argument("--only", help="one reader, whose row in the table is made anew")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--child")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--progress", type=Path)
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    if options.child:
        child(options.child, options.start, options.files, options.progress, options.keep)
        return 0
    names = [options.only] if options.only else list(READERS)
    with ThreadPoolExecutor(options.jobs) as pool:
        sizes = [int(options.files * READERS[name].share) for name in names]
        found = list(pool.map(run, names, sizes, [options.keep] * len(names)))
    results = dict(zip(names, found, strict=True))
    head, _, rest = PAGE.read_text().partition(START)
    before, _, tail = rest.partition(END)
    known = rows(before) | results
    made = table({name: known[name] for name in READERS if name in known})
    PAGE.write_text(f"{head}{START}\n\n{made}\n\n{END}{tail}")
    print(made)
    return int(any(counts[each] for counts in found for each in ("raw", "crash", "hang")))


if __name__ == "__main__":
    sys.exit(main())
