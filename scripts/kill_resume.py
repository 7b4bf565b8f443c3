#!/usr/bin/env python3
"""Kills commands at random times, lets them go on from their checkpoints, and compares with undisturbed runs.

    scripts/kill_resume.py PROGRAM [--kills N] [--seed S] [--only TEXT] [--device cpu,emulated] [--folder DIR]

PROGRAM is `warpkov`. `--device cuda:0` runs the scenarios of the emulator on a GPU. Each scenario is a command of a model class and
method. It runs undisturbed first, twice: the output and the duration are those to compare with. Then N times, it starts and is killed
by SIGKILL:

- at a time that is uniform between 0 and 1.1 times the duration, or
- at a write, which is seen by polling every 0.2 ms: a new file that has no name yet, one with a temporary name, or a replaced file.

Of a kill, these must hold:

- the checkpoint is absent or complete, and of this command's outputs each is absent, what it was before, or complete;
- nothing else is beside them but files of temporary names, .warpkov-*, which are counted: a complete file in the last step of a
  replacement, and a part of a file that several ranks write together;
- the command, begun again with --auto-resume or --resume, ends with the exit code of an undisturbed run, and with its result.

Which result: the bits where book/reference/guarantees.md promises them (values in f64, hmm train, files that are written at once). For
other methods the certified intervals of both runs meet in every state; for pomdp the bounds hold for one value, and are no worse than
those of the checkpoint by more than 1e-3. The number of results whose bits differ is printed for these, too.

The exit code is 1 if something does not hold. The folder is then kept, with one folder for each kill that failed.
"""

import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = {
    "garnet.safetensors": "mdp generate garnet --states 200 --actions 3 --branching 4 --gamma 0.98 --seed 1",
    # Where the process may end, values come to rest slowly.
    "ending.safetensors": "mdp generate garnet --states 300 --actions 3 --branching 4 --window 20 --terminals 0.02 --gamma 0.99 --seed 1",
    "few.safetensors": "mdp generate garnet --states 16 --actions 2 --branching 2 --window 2 --terminals 0.1 --gamma 0.97 --seed 1",
    "tiny.safetensors": "mdp generate garnet --states 8 --actions 2 --branching 2 --gamma 0.9 --seed 1",
    "small.safetensors": "mdp generate garnet --states 16 --actions 2 --branching 2 --gamma 0.98 --seed 1",
    "coin.safetensors": "mdp generate consensus --processes 2 --bound 2",
    "tiger.json": "pomdp generate tiger",
    "truth.json": "hmm generate random --states 8 --symbols 6 --seed 1",
    "chain.json": "hmm generate random --states 8 --symbols 6 --seed 2",
    "pair.json": "hmm generate random --states 2 --symbols 2 --seed 2",
}
SEQUENCES = {
    "symbols.txt": "hmm sample truth.json --sequences 20 --length 60 --seed 1",
    "few.txt": "hmm sample pair.json --sequences 3 --length 10 --seed 1",
}
VALUES = "mdp solve {} --method values --precision f64 --no-skip --out OUT"
SOLVE = "mdp solve garnet.safetensors --precision f64 --out OUT.json --method "
CHECKPOINT = "--checkpoint checkpoint --checkpoint-every "

# Of each scenario: the device ("" if it has none), how results compare, seconds between checkpoints (0: none), and the command.
SCENARIOS = {
    "mdp values": ("cpu", "bits", 0.005, VALUES.format("ending.safetensors") + ".json"),
    "mdp values, two files": ("cpu", "bits", 0.005, VALUES.format("ending.safetensors") + ".npy"),
    "mdp values, mixed": ("cpu", "bounds", 0.005, "mdp solve ending.safetensors --method values --out OUT.json"),
    "mdp serial": ("cpu", "bounds", 0.005, SOLVE + "serial"),
    "mdp parallel": ("cpu", "bounds", 0.005, SOLVE + "parallel"),
    "mdp krylov": ("cpu", "bounds", 0.005, SOLVE + "krylov"),
    "mdp modified": ("cpu", "bounds", 0.005, SOLVE + "modified"),
    "mdp gauss-seidel": ("cpu", "bounds", 0.005, SOLVE + "gauss-seidel"),
    "mdp total": ("cpu", "bounds", 0.01, "mdp solve coin.safetensors --criterion total --goal finished --out OUT.json"),
    "mdp reach": ("cpu", "bounds", 0.002, "mdp solve coin.safetensors --criterion reach --goal finished&all_coins_equal_1 --minimize --out OUT.json"),
    "mdp average": ("cpu", "bounds", 0.005, "mdp solve garnet.safetensors --criterion average --epsilon 1e-9 --out OUT.json"),
    "mdp horizon": ("cpu", "bounds", 0.01, "mdp solve garnet.safetensors --horizon 2000 --gamma 1 --out OUT.json"),
    "mdp values, emulated": ("emulated", "bits", 0.005, VALUES.format("few.safetensors") + ".json"),
    "mdp modified, emulated": ("emulated", "bounds", 0.005, "mdp solve small.safetensors --method modified --precision f64 --out OUT.json"),
    "mdp krylov, emulated": ("emulated", "bounds", 0.005, "mdp solve tiny.safetensors --method krylov --epsilon 1e-3 --out OUT.json"),
    "pomdp hsvi": ("cpu", "search", 0.01, "pomdp solve tiger.json --gap 1e-9 --iterations 20 --expansion hsvi --out OUT.alpha"),
    "pomdp random": ("cpu", "search", 0.01, "pomdp solve tiger.json --gap 1e-9 --iterations 8 --expansion random --out OUT.alpha"),
    "pomdp random, emulated": (
        "emulated",
        "search",
        0.01,
        "pomdp solve tiger.json --gap 1e-9 --iterations 2 --expansion random --beliefs 2 --backups full --out OUT.alpha",
    ),
    "hmm train": ("cpu", "bits", 0.01, "hmm train chain.json symbols.txt --iterations 15 --tolerance 0 --restarts 1 --out OUT.json"),
    "hmm train, emulated": ("emulated", "bits", 0.01, "hmm train pair.json few.txt --iterations 4 --tolerance 0 --out OUT.json"),
    "mdp generate": ("", "bits", 0, "mdp generate garnet --states 20000 --actions 3 --branching 4 --seed 1 --out OUT.safetensors"),
    "mdp generate, json": ("", "bits", 0, "mdp generate garnet --states 5000 --actions 3 --branching 4 --seed 1 --out OUT.json"),
    "hmm sample": ("", "bits", 0, "hmm sample truth.json --sequences 500 --length 200 --seed 1 --out OUT.txt"),
    "hmm sample, three files": (
        "",
        "bits",
        0,
        "hmm sample truth.json --sequences 500 --length 200 --seed 1 --out OUT.npy --lengths OUT.lengths.npy --states OUT.states.npy",
    ),
}
# A file between link and rename has such a name. What has none yet is deleted by the kernel.
TEMPORARY = ".warpkov-"
# Files that ranks write together, one rank too, have a temporary name from the start.
TOGETHER = ("mdp generate",)
# What a command replaces.
OLD = b"old"
POLL = 0.0002
# A command that takes longer hangs: the undisturbed ones take less than a second.
LIMIT = 600
# As in the tests of searches.
WORSE = 1e-3
# Rounding of a value, relative.
ROUNDING = 1e-9
# The parts of a report that a resumed run shares with an undisturbed one to the bit. The others are times, and what a round was.
COMPARED = ("status", "values", "policy", "lower", "upper", "certificate", "error", "sweeps", "iterations", "log_likelihoods", "gain")


class Violation(Exception):
    pass


def must(holds, message):
    if not holds:
        raise Violation(message)


def checkpoint_texts(file):
    """The metadata of a checkpoint, which must be complete: its arrays fill it to the last byte."""
    data = file.read_bytes()
    must(len(data) >= 8, f"{file.name} has {len(data)} bytes")
    (length,) = struct.unpack("<Q", data[:8])
    must(8 + length <= len(data), f"{file.name}: its header is not complete")
    header = json.loads(data[8 : 8 + length])
    texts = header.pop("__metadata__")
    ends = [array["data_offsets"][1] for array in header.values()]
    must(8 + length + max(ends, default=0) == len(data), f"{file.name}: its arrays are not complete")
    rounds = header.get("rounds.lower", {"data_offsets": [0, 0]})["data_offsets"]
    if rounds[0] < rounds[1]:
        (texts["lower"],) = struct.unpack("<d", data[8 + length + rounds[1] - 8 : 8 + length + rounds[1]])
    return texts


def identity(file):
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def writes(process, room):
    """Whether a file is being written: one without a name, or one with a temporary name."""
    try:
        if any(name.startswith(TEMPORARY) for name in os.listdir(room)):
            return True
        folder = f"/proc/{process.pid}/fd"
        for number in os.listdir(folder):
            target = os.readlink(f"{folder}/{number}")
            if target.startswith(str(room)) and target.endswith("(deleted)"):
                return True
    except OSError:
        pass
    return False


class Scenario:
    def __init__(self, name, campaign):
        self.name, self.campaign, self.changes, self.parts, self.last = name, campaign, 0, 0, ""
        self.device, self.compare, self.every, self.command = SCENARIOS[name]
        if self.device == "emulated":
            self.device = campaign.emulated
            self.name = name.replace("emulated", self.device)
        words = self.command.split()
        self.words = words + (["--device", self.device] if self.device else [])
        if self.every:
            self.words += [*CHECKPOINT.split(), str(self.every), "--json"]
        self.outputs = [word for word in words if word.startswith("OUT")]
        if words[1] == "solve" and self.outputs == ["OUT.npy"]:
            self.outputs.append("OUT.policy.npy")

    def room(self, name):
        """A folder with the inputs."""
        room = self.campaign.folder / f"{self.name.replace(', ', '-').replace(' ', '-')}-{name}"
        room.mkdir()
        for file in (*MODELS, *SEQUENCES):
            (room / file).symlink_to(self.campaign.folder / file)
        return room

    def start(self, room, more=()):
        # Reports are outside, so that the folder holds what the command writes.
        report, errors = (open(f"{room}.{kind}", "wb") for kind in ("report", "errors"))
        with report, errors:
            command = [self.campaign.program, *self.words, *more]
            return subprocess.Popen(command, cwd=room, stdin=subprocess.DEVNULL, stdout=report, stderr=errors)

    def end(self, process, room):
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Violation(f"does not end within {LIMIT} s") from None
        must(code in (0, 1), f"exit code {code}: {Path(f'{room}.errors').read_text().strip()}")
        return code

    def report(self, room):
        return json.loads(Path(f"{room}.report").read_bytes()) if self.every else {}

    def result(self, room, report):
        """What is compared to the bit: whole files, or those parts of a JSON report that are not times."""
        found = {}
        for output in self.outputs:
            content = (room / output).read_bytes()
            if output.endswith(".json") and self.words[1] == "solve":
                content = plain(json.loads(content))
            found[output] = content
        return found, plain(report)

    def undisturbed(self):
        durations = []
        for number in range(2):
            room = self.room(f"undisturbed-{number}")
            begin = time.monotonic()
            process = self.start(room)
            before = None
            # The second is not polled for its duration.
            while number == 0 and process.poll() is None and time.monotonic() < begin + LIMIT:
                now = identity(room / "checkpoint")
                self.changes += now not in (None, before)
                before = now or before
                time.sleep(POLL)
            code = self.end(process, room)
            durations.append(time.monotonic() - begin)
            report = self.report(room)
            result = self.result(room, report)
            if number and self.compare == "bits":
                must((code, result) == (self.code, self.expected), "two undisturbed runs differ")
            self.code, self.expected, self.expected_report, self.expected_room = code, result, report, room
            if self.every:
                checkpoint_texts(room / "checkpoint")
        self.duration = min(durations)

    def kill(self, number, draw):
        """One kill and its resumption. Returns where it fell, whether the command went on, whether bits differ, and what was left."""
        room = self.room(number)
        old = draw.random() < 0.5
        for output in self.outputs if old else ():
            (room / output).write_bytes(OLD)
        # The files that exist before count as unchanged.
        watched = [room / name for name in ("checkpoint", *self.outputs)]
        way = draw.choice(["time", "time", "writing", "replaced"])
        at = draw.uniform(0, 1.1) * self.duration
        nth = draw.randint(1, max(1, self.changes))
        self.last = f"{way}, " + (f"{at:.4f} s" if way == "time" else f"write {nth}")
        begin, seen, before = time.monotonic(), 0, [identity(file) for file in watched]
        process = self.start(room)
        active = False
        while process.poll() is None and time.monotonic() < begin + LIMIT:
            if way == "time":
                left = begin + at - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(left, 0.01))
                continue
            if way == "writing":
                now = writes(process, room)
                seen += now and not active
                active = now
            else:
                now = [identity(file) for file in watched]
                seen += now != before
                before = now
            if seen >= nth:
                break
            time.sleep(POLL)
        # The process may have ended meanwhile, which this then finds.
        process.kill()
        ended = process.wait() >= 0
        after = time.monotonic() - begin
        self.last += f", killed after {after:.4f} s" if not ended else ", ended before"
        left = self.check(room, old, ended)
        checkpoint = room / "checkpoint"
        exists = checkpoint.exists()
        texts = checkpoint_texts(checkpoint) if exists else {}
        more = []
        if self.every:
            more = ["--resume", "checkpoint"] if exists and draw.random() < 0.5 else ["--auto-resume"]
        code = self.end(self.start(room, more), room)
        must(code == self.code, f"exit code {code} after {more}, {self.code} undisturbed")
        report = self.report(room)
        found = self.result(room, report)
        differs = found != self.expected
        getattr(self, self.compare)(room, found, report, texts)
        unknown = [file for file in self.beside(room) if not file.name.startswith(TEMPORARY)]
        must(not unknown, f"leaves {unknown} after going on")
        shutil.rmtree(room)
        place = 2 if ended else 1 if exists else 0
        return place, exists, differs, len(left)

    def beside(self, room):
        known = {"checkpoint", *self.outputs, *MODELS, *SEQUENCES}
        return [file for file in room.iterdir() if file.name not in known]

    def check(self, room, old, ended):
        """Checks the files after a kill, and returns those of temporary names."""
        left = self.beside(room)
        unknown = [file.name for file in left if not file.name.startswith(TEMPORARY)]
        must(not unknown, f"leaves {unknown}")
        if (room / "checkpoint").exists():
            checkpoint_texts(room / "checkpoint")
        for output in self.outputs:
            self.whole(room / output, output, old, ended)
        for file in left:
            complete = False
            try:
                checkpoint_texts(file)
                complete = self.every > 0
            except (Violation, ValueError, KeyError):
                complete = any(self.is_whole(file, output) for output in self.outputs)
            self.parts += not complete
            must(complete or self.name in TOGETHER, f"leaves {file.name}, which is not complete")
        return left

    def whole(self, file, output, old, ended):
        if not file.exists():
            must(not old, f"{output} has gone")
            must(not ended, f"the command has ended, and {output} does not exist")
        elif file.read_bytes() == OLD:
            must(old, f'{output} is "old"')
            must(not ended, f"the command has ended, and {output} is the old one")
        else:
            must(self.is_whole(file, output), f"{output} is not complete: {file.stat().st_size} bytes")

    def is_whole(self, file, output):
        content, expected = file.read_bytes(), (self.expected_room / output).read_bytes()
        if output.endswith(".json") and self.words[1] == "solve":
            try:
                found, wanted = json.loads(content), json.loads(expected)
            except ValueError:
                return False
            # `notes` tell of a checkpoint.
            return found.keys() == wanted.keys() and len(found["values"]) == len(wanted["values"])
        if self.compare == "bits":
            return content == expected
        # Vectors: two lines each, and an empty one.
        return content.endswith(b"\n")

    def bits(self, room, found, report, texts):
        (files, reported), (expected_files, expected_reported) = found, self.expected
        wrong = [output for output in self.outputs if files[output] != expected_files[output]]
        wrong += [key for key in expected_reported if reported.get(key) != expected_reported[key]]
        must(not wrong, f"differs from the undisturbed run in {wrong}")

    def bounds(self, room, found, report, texts):
        own, other = (json.loads((place / "OUT.json").read_bytes()) for place in (room, self.expected_room))
        must(own["status"] == other["status"], f"status {own['status']}, {other['status']} undisturbed")
        for state, ((low, high), (other_low, other_high)) in enumerate(zip(intervals(own), intervals(other), strict=True)):
            slack = ROUNDING * max(1, abs(low)) if abs(low) != float("inf") else 0
            met = low <= other_high + slack and high >= other_low - slack
            must(met, f"state {state}: [{low}, {high}], undisturbed [{other_low}, {other_high}]")

    def search(self, room, found, report, texts):
        lower, upper, other = report["lower"], report["upper"], self.expected_report
        must(lower <= upper, f"lower bound {lower} above upper bound {upper}")
        meet = lower <= other["upper"] + WORSE and upper >= other["lower"] - WORSE
        must(meet, f"bounds [{lower}, {upper}], undisturbed [{other['lower']}, {other['upper']}]")
        # The model of these scenarios has rewards, so that the bounds of its checkpoints have the same sign.
        if "lower" in texts:
            no_worse = lower >= texts["lower"] - WORSE and upper <= float(texts["upper"]) + WORSE
            must(no_worse, f"bounds [{lower}, {upper}], in the checkpoint [{texts['lower']}, {texts['upper']}]")
        must(report["iterations"] == other["iterations"], f"{report['iterations']} expansions, {other['iterations']} undisturbed")


def plain(report):
    return {key: report[key] for key in COMPARED if key in report}


def intervals(report):
    """The certified interval of each state."""
    if "lower" in report and isinstance(report["lower"], list):
        return list(zip(map(float, report["lower"]), map(float, report["upper"]), strict=True))
    error = report["certificate"]["bound"] if "certificate" in report else report.get("error", 0.0)
    values = [float(value) for value in report["values"]]
    return [(value - error, value + error) for value in values]


class Campaign:
    def __init__(self, options):
        self.options = options
        self.program = str(Path(options.program).resolve())
        self.folder = Path(tempfile.mkdtemp(dir=options.folder)).resolve()
        self.devices = options.device.split(",")
        # What the scenarios of the emulator run on.
        self.emulated = next((device for device in self.devices if device.startswith("cuda")), "emulated")

    def inputs(self):
        for file, command in {**MODELS, **SEQUENCES}.items():
            subprocess.run([self.program, *command.split(), "--out", file], cwd=self.folder, check=True, capture_output=True)

    def one(self, name):
        """Runs a scenario, prints its line, and returns the number of its violations."""
        scenario = Scenario(name, self)
        try:
            scenario.undisturbed()
        except Violation as violation:
            print(f"{scenario.name}: undisturbed: {violation}", flush=True)
            return 1
        places, resumed, differing, left, wrong = [0, 0, 0], 0, 0, 0, []
        # Each kill has its own numbers, so that --only and --kills do not change them.
        for number in range(self.options.kills):
            draw = random.Random(f"{self.options.seed} {name} {number}")
            try:
                place, went_on, differs, temporary = scenario.kill(number, draw)
                places[place] += 1
                resumed += went_on
                differing += differs
                left += temporary
            except Violation as violation:
                wrong.append(f"seed {self.options.seed}, kill {number} ({scenario.last}): {violation}")
        kinds = ("before the first checkpoint", "between", "after the end") if scenario.every else ("before the end", "", "after the end")
        parts = ", ".join(f"{count} {kind}" for count, kind in zip(places, kinds) if kind)
        promise = "" if scenario.compare == "bits" else f" ({'within certificates' if scenario.compare == 'bounds' else 'within bounds'})"
        parts_left = f", {scenario.parts} of them incomplete" if scenario.parts else ""
        checkpoints = f", {scenario.changes} checkpoints" if scenario.every else ""
        print(
            f"{scenario.name}: {scenario.duration:.2f} s{checkpoints}; {self.options.kills} kills: {parts}; {resumed} resumed; "
            f"{differing} differing{promise}; {left} temporary files left{parts_left}; {len(wrong)} violations",
            flush=True,
        )
        for message in wrong:
            print(f"    {message}", flush=True)
        return len(wrong)

    def run(self):
        self.inputs()
        chosen = {"", *self.devices} | ({"emulated"} if self.emulated in self.devices else set())
        names = [name for name in SCENARIOS if self.options.only in name and SCENARIOS[name][0] in chosen]
        wrong = sum(self.one(name) for name in names)
        print(f"{len(names)} scenarios, {len(names) * self.options.kills} kills, {wrong} violations")
        if wrong:
            print(f"see {self.folder}")
        else:
            shutil.rmtree(self.folder)
        return bool(wrong or not names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=4, help="kills of each scenario")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="scenarios whose name contains this text")
    parser.add_argument("--device", default="cpu,emulated", help="devices of the scenarios: cpu, and emulated or cuda:N")
    parser.add_argument("--folder", help="where files are written, such as a folder of another file system")
    sys.exit(Campaign(parser.parse_args()).run())


if __name__ == "__main__":
    main()
