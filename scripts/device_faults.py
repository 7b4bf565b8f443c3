#!/usr/bin/env python3
"""Fails each call of the CUDA driver once, in each way, and checks how the commands bear it.

    scripts/device_faults.py PROGRAM DRIVER [--behind libcuda.so.1] [--uses 1,2,half,last] [--every-code] [--jobs N] [--only TEXT]

PROGRAM is `warpkov`, DRIVER the library of toolchain/cuda/examples/driver.rs. With --behind, calls are passed on to that driver of
NVIDIA. Without it, the library stands in for a GPU whose kernels do nothing, so this needs none.

Each command runs undisturbed first, which counts its calls. Then each call fails at its first, second, middle and last use, with one
code in turn, or with every code. Each such run must do one of three things within its time limit:

- end with exit code 3 and a message that names the call, the code, and, where the GPU failed while it worked, the kernels;
- end as the undisturbed run, with the same output: where the call only frees something, or where there is another way;
- with `--device auto`, say that it chose the CPU instead.

In all cases the output is whole or absent, there is nothing beside it, and what it replaces is whole. An undisturbed run on the
stand-in must have freed everything.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODELS = {
    "maze.safetensors": "mdp generate garnet --states 60 --actions 3 --branching 4 --terminals 0.1 --seed 1",
    "wide.safetensors": "mdp generate garnet --states 3000 --actions 8 --branching 8 --seed 1",
    "tiger.pomdp": "pomdp generate tiger",
    "casino.json": "hmm generate random --states 3 --symbols 4 --seed 1",
}
SEQUENCES = "hmm sample casino.json --sequences 4 --length 50 --seed 1 --out rolls.txt"
COMMANDS = {
    "values": "mdp solve maze.safetensors --method values --max-sweeps 40 --device cuda:0 --out OUT.json",
    "krylov": "mdp solve maze.safetensors --method krylov --max-sweeps 40 --device cuda:0 --out OUT.json",
    "narrow": "mdp solve maze.safetensors --method values --precision f32 --max-sweeps 40 --device cuda:0 --out OUT.npy",
    "reach": "mdp solve maze.safetensors --criterion total --max-sweeps 40 --device cuda:0 --out OUT.json",
    "score": "hmm score casino.json rolls.txt --device cuda:0 --out OUT.csv",
    "decode": "hmm decode casino.json rolls.txt --device cuda:0 --out OUT.txt",
    "posterior": "hmm posterior casino.json rolls.txt --device cuda:0 --out OUT.npy",
    "train": "hmm train casino.json rolls.txt --iterations 3 --device cuda:0 --out OUT.json",
    "pomdp": "pomdp solve tiger.pomdp --iterations 3 --expansion random --device cuda:0 --out OUT.alpha",
    "auto": "mdp solve wide.safetensors --method values --max-sweeps 40 --device auto --out OUT.npy",
    "devices": "devices",
}
# A lack of memory; an uncorrectable error of the memory, an illegal address, a launch that timed out, a lost context, a failed launch; a
# device that is taken; an unknown code.
CODES = [2, 214, 700, 702, 709, 719, 46, 999]
# A destructor cannot report that it failed, and nothing depends on it.
FREEING = re.compile(r"Destroy|Free|Unload|Release|PopCurrent")
# There is another way: pageable memory; no name, no time, no address in a report.
OPTIONAL = {"cuMemAllocHost_v2", "cuDeviceGetName", "cuDevicePrimaryCtxSetFlags_v2"}
# A thread opens the GPU while the command reads, and the command opens it again if that failed.
OPENING = {"cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuDriverGetVersion", "cuCtxSetCurrent"}
# What lives as long as the context: the memory, counters and stream of the messages of kernels.
OF_CONTEXT = 3
LIMIT = 300
# What a command replaces.
OLD = b"old"



def run(program, words, folder, driver, fault=None, calls=None):
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{driver}:{os.environ.get('LD_LIBRARY_PATH', '')}", "WARPKOV_NVML": "none"}
    if fault:
        environment["DRIVER_FAULT"] = fault
    if calls:
        environment["DRIVER_CALLS"] = str(calls)
    try:
        done = subprocess.run(
            [program, *words.split()], cwd=folder, env=environment, capture_output=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"does not end within {LIMIT} s"
    return done.returncode, (done.stdout if done.returncode in (0, 1) else done.stderr).decode()


def result(file):
    """What a file holds but for times, and the name of the device, which the driver may refuse to tell."""
    if file.suffix != ".json" or file.read_bytes() == OLD:
        return file.read_bytes()

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items() if key not in ("phases", "device", "notes") and "seconds" not in key}
        return [plain(part) for part in value] if isinstance(value, list) else value

    return plain(json.loads(file.read_bytes()))


def output(name):
    return next((word for word in COMMANDS[name].split() if word.startswith("OUT")), None)


def outputs(folder):
    return {file.name: result(file) for file in folder.iterdir() if file.name.startswith("OUT")}


class Campaign:
    def __init__(self, options):
        self.options = options
        self.program = str(Path(options.program).resolve())
        self.kept = tempfile.TemporaryDirectory()
        self.folder = Path(self.kept.name)
        self.driver = self.folder / "driver"
        self.driver.mkdir()
        (self.driver / "libcuda.so.1").symlink_to(Path(options.driver).resolve())
        if options.behind:
            os.environ["DRIVER_BEHIND"] = options.behind

    def inputs(self):
        for name, command in MODELS.items():
            self.must(f"{command} --out {name}")
        self.must(SEQUENCES)

    def must(self, command):
        subprocess.run([self.program, *command.split()], cwd=self.folder, check=True, capture_output=True)

    def room(self, room, name):
        """A folder with the inputs, and a file that the command replaces."""
        folder = self.folder / room
        folder.mkdir()
        if target := output(name):
            (folder / target).write_bytes(OLD)
        for file in [*MODELS, "rolls.txt"]:
            (folder / file).symlink_to(self.folder / file)
        return folder

    def undisturbed(self, name):
        room = self.room(name, name)
        code, message = run(self.program, COMMANDS[name], room, self.driver, calls=room / "calls")
        # Kernels that do nothing leave likelihoods of 0, of which there is no training.
        if code not in ((0, 1) if self.options.behind else (0, 1, 2)):
            sys.exit(f"{name}: exit code {code} without a fault: {message}")
        counts = {call: int(uses) for call, uses in (line.split() for line in (room / "calls").read_text().splitlines())}
        if counts.pop("left", 0) > OF_CONTEXT:
            sys.exit(f"{name}: not everything was freed")
        return code, outputs(room), {call: uses for call, uses in counts.items() if uses}

    def faults(self, counts):
        for call, uses in counts.items():
            named = {"half": (uses + 1) // 2, "last": uses}
            asked = [named.get(word) or int(word) for word in self.options.uses.split(",") if word]
            for number in sorted({number for number in asked if number <= uses}):
                for at, code in enumerate(CODES):
                    if self.options.every_code or at == (number + len(call)) % len(CODES):
                        yield call, number, code

    def one(self, name, call, number, code, uses, expected):
        """What is wrong with a run, or nothing."""
        room = self.room(f"{name}-{call}-{number}-{code}", name)
        exit_code, message = run(self.program, COMMANDS[name], room, self.driver, f"{call} {number} {code}")
        found, (expected_code, expected_outputs) = outputs(room), expected
        beside = {file.name for file in room.iterdir()} - set(MODELS) - {"rolls.txt"} - set(expected_outputs)
        if exit_code is None:
            return message
        if beside:
            return f"leaves {sorted(beside)}"
        if exit_code == 3:
            target = output(name)
            if target and found.get(target) not in (OLD, expected_outputs[target]):
                return f"leaves a half file: {message}"
            plain = re.sub(r"(_v2|_v3|WithPriority|WithFlags)$", "", call)
            memory = code == 2 and "memory" in message
            if not memory and plain not in message and not re.search(rf"cu[A-Z].*code {code}\b", message):
                return f"does not name the call: {message}"
            if not memory and code in CODES[1:6] and f"code {code}" not in message:
                return f"does not name the code: {message}"
            # At the first and the last waits, no kernel may be at work.
            at_work = call.startswith("cuLaunch") or number > 1 and call in ("cuStreamQuery", "cuEventQuery")
            if code in CODES[1:6] and at_work and "kernel" not in message:
                return f"does not name a kernel: {message}"
            return None
        if name == "auto" and exit_code in (0, 1) and "auto chose the CPU" in message:
            return None
        if exit_code == expected_code and found == expected_outputs:
            # A destructor waits last, for messages of kernels.
            freeing = FREEING.search(call) or call == "cuStreamSynchronize" and number == uses
            carried_on = freeing or call in OPTIONAL | OPENING or self.options.behind or name == "devices"
            return None if carried_on else f"does not see the fault: {message}"
        return f"exit code {exit_code}: {message}"

    def run(self):
        self.inputs()
        names = [name for name in COMMANDS if self.options.only in name]
        wrong, total = [], 0
        with ThreadPoolExecutor(self.options.jobs) as pool:
            for name in names:
                code, files, counts = self.undisturbed(name)
                faults = list(self.faults(counts))
                results = pool.map(lambda fault: self.one(name, *fault, counts[fault[0]], (code, files)), faults)
                found = [(name, *fault, result) for fault, result in zip(faults, results) if result]
                print(f"{name}: {len(counts)} calls, {sum(counts.values())} uses, {len(faults)} faults, {len(found)} borne badly", flush=True)
                for name, call, number, code, result in found:
                    print(f"    {call}, use {number}, code {code}: {result.strip()}", flush=True)
                wrong += found
                total += len(faults)
        print(f"{total} faults of the driver, {len(wrong)} borne badly")
        return bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("driver")
    parser.add_argument("--behind", help="NVIDIA's driver, to which calls are passed on")
    parser.add_argument("--uses", default="1,2,half,last", help="which uses of each call fail; none if empty")
    parser.add_argument("--every-code", action="store_true", help="fail with every code")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="commands whose name contains this text")
    sys.exit(Campaign(parser.parse_args()).run())


if __name__ == "__main__":
    main()
