#!/usr/bin/env bash
# Does the comparisons of scripts/test-mpi.sh under Slurm, with two nodes on this machine: two slurmds on two ports.
# Needs root. Installs Debian's packages of Slurm, 22.05 in Debian 12.
#
# How a job can start ranks, as seen with that version, MPICH 5.0 and Open MPI 5.0 of scripts/mpi.sh:
#
#   srun --mpi=pmi2   MPICH; each process of Open MPI is a world of its own
#   srun --mpi=pmix   Open MPI; MPICH refuses to start, because PyPI's speaks PMI 1 and 2 only
#   srun --mpi=none   neither; each process is a world of its own
#   mpiexec           each with its own library; it starts its daemons with srun
#
# The library is not next to srun: WARPKOV_MPI names it.
set -euo pipefail
cd "$(dirname "$0")/.."

# The tests of Slurm's own features.
checks=(without_plugin time_limit)
[[ -z ${CHECKS:-} ]] || read -ra checks <<<"$CHECKS"

((EUID == 0)) || { echo "scripts/test-slurm.sh needs root" >&2; exit 1; }
# Slurm's plugin loads libpmix.so, which only the package for developers has.
packages=(slurmctld slurmd slurm-client libpmix-dev)
if ! dpkg-query --show "${packages[@]}" >/dev/null 2>&1; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi
if [[ -z ${WARPKOV:-} ]]; then
    cargo build --quiet --bin warpkov
    WARPKOV=$(realpath "${CARGO_TARGET_DIR:-target}/debug/warpkov")
fi
export WARPKOV
mpich=$(scripts/mpi.sh mpich)
openmpi=$(scripts/mpi.sh openmpi)

# The nodes' sockets have names in it, which must be short.
folder=$(mktemp -d /tmp/slurm.XXXXXX)
daemons=()
stop() {
    local code=$?
    trap - EXIT
    scancel --quiet --user root 2>/dev/null || true
    for _ in {1..50}; do
        [[ -n $(squeue --noheader 2>/dev/null) ]] || break
        sleep 0.2
    done
    for daemon in "${daemons[@]}"; do
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    done
    ((code == 0)) || tail -n 30 "$folder"/*.log >&2
    rm -rf "$folder"
    exit "$code"
}
trap stop EXIT
trap 'exit 130' INT TERM

free_ports() {
    python3 -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for socket in sockets:
    socket.bind(("", 0))
print(*(socket.getsockname()[1] for socket in sockets))'
}
read -r control one two <<<"$(free_ports)"
mkdir "$folder/state" "$folder"/{spool,tmp}-{one,two}
export SLURM_CONF=$folder/slurm.conf
# TmpFS: PMIx has a folder there for each job, which two nodes must not share.
cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort=$control
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
SelectType=select/linear
TaskPlugin=task/none
ReturnToService=2
KillWait=5
MailProg=/bin/true
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdSpoolDir=$folder/spool-%n
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmdLogFile=$folder/slurmd-%n.log
TmpFS=$folder/tmp-%n
NodeName=one NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$one CPUs=$(nproc)
NodeName=two NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$two CPUs=$(nproc)
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
slurmctld -D -i >/dev/null 2>&1 &
daemons+=($!)
for node in one two; do
    slurmd -D -N "$node" >/dev/null 2>&1 &
    daemons+=($!)
done
for _ in {1..100}; do
    [[ $(sinfo --noheader --Node --format=%T 2>/dev/null | grep -c '^idle$') != 2 ]] || break
    sleep 0.2
done
[[ $(srun --nodes=2 --ntasks=2 printenv SLURMD_NODENAME | sort | tr '\n' ' ') == "one two " ]]

# Without a plugin, MPI takes each task for a world of its own: one message, exit code 2, and no result.
without_plugin() {
    local code=0
    "$WARPKOV" mdp generate forest --out "$folder/forest.json"
    srun --mpi=none --nodes=2 --ntasks=2 "$WARPKOV" mdp solve "$folder/forest.json" >"$folder/plugin.out" \
        2>"$folder/plugin.log" || code=$?
    [[ $code == 2 && ! -s $folder/plugin.out && $(grep -c '^error:' "$folder/plugin.log") == 1 ]]
}

# A job's time limit. Slurm sends SIGTERM to the ranks, up to a minute earlier than --signal says, and again at the
# limit. The ranks write a checkpoint and end.
time_limit() {
    "$WARPKOV" mdp generate consensus --processes 4 --bound 40 --out "$folder/large.safetensors"
    sbatch --quiet --wait --nodes=2 --ntasks=2 --time=1 --signal=TERM@50 --output="$folder/time-limit.log" --wrap "
        srun --mpi=pmi2 '$WARPKOV' mdp solve '$folder/large.safetensors' --criterion total --goal finished \
            --device cpu --quiet --checkpoint '$folder/checkpoint'" || true
    [[ -s $folder/checkpoint ]]
}

# Runs scripts/test-mpi.sh within a job of two nodes, where its `alone` runs see the job's variables.
batch() {
    local name=$1 code=0
    shift
    sbatch --quiet --wait --nodes=2 --ntasks=4 --overcommit --output="$folder/$name.out" --wrap "
        scripts/test-mpi.sh $name $*" || code=$?
    cat "$folder/$name.out"
    return "$code"
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
srun=(srun --quiet --input=none --nodes=2 --overcommit)
batch batch-mpich "$mpich"
batch batch-openmpi "$openmpi" --oversubscribe
WARPKOV_MPI=$(dirname "$openmpi")/../lib/libmpi.so.40 scripts/test-mpi.sh srun-pmix-openmpi "${srun[@]}" --mpi=pmix
export WARPKOV_MPI
WARPKOV_MPI=$(realpath "$(dirname "$mpich")/../lib/libmpi_abi.so.1")
scripts/test-mpi.sh srun-pmi2-mpich "${srun[@]}" --mpi=pmi2
for check in "${checks[@]}"; do
    "$check" || { echo "$check failed" >&2; exit 1; }
    echo "$check"
done
