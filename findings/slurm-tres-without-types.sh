#!/bin/bash
# Slurm 24.11.5: where AccountingStorageTRES=gres/gpu names no types, sacct may not know which type a job asked for.
#
# Expected: a job of "sbatch --gres=gpu:v100:1" has a trace of v100 in ReqTRES, AllocTRES or another field of sacct
# that is about resources, as squeue has it.
# Seen: both are gres/gpu=1, as for a job that takes any GPU. In sacct the type stands in SubmitLine alone, and
# nowhere if the user gave it in an #SBATCH line of the script. squeue has the type in tres_per_node (--gres) or
# tres_per_job (--gpus), but not in tres_req_str and tres_alloc_str.
# What follows: a reader that takes requests from ReqTRES believes that the job may run on any GPU. List each type in
# AccountingStorageTRES beside gres/gpu.
#
# Needs: root on Linux (chroot, namespaces), debootstrap, unshare, 2 GB of disk. Takes about two minutes. The daemons
# have a network of their own that is loopback alone; the GPUs are pretended.
set -Eeuo pipefail
trap 'exit 2' ERR
if [ "${1:-}" != inside ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    packages=slurmctld,slurmd,slurmdbd,slurm-wlm-mysql-plugin,mariadb-server,munge,jq,iproute2
    debootstrap --variant=minbase --include=$packages trixie "$work/root" >"$work/log" 2>&1 || {
        tail "$work/log" >&2
        exit 2
    }
    # The libmariadb3 that Debian 13 has by now (11.8.9) answers slurmdbd's first query with an error.
    sed s/trixie/bookworm/ "$work/root/etc/apt/sources.list" >"$work/root/etc/apt/sources.list.d/old.list"
    chroot "$work/root" sh -c 'apt-get update && cd /tmp && apt-get download libmariadb3/bookworm &&
        dpkg -x libmariadb3_*.deb /old' >"$work/log" 2>&1
    [[ $(chroot "$work/root" dpkg-query -W -f '${Version}' slurmctld) == 24.11.5-* ]]
    cp "$0" "$work/root/script.sh"
    # All daemons end with the first process of their namespace.
    unshare --mount --net --uts --pid --fork --kill-child chroot "$work/root" bash /script.sh inside || exit $?
    exit 0
fi

mount -t proc proc /proc
hostname here
ip link set lo up
ip address add 192.0.2.1/32 dev lo # the resolver gives no addresses for names where there is but 127.0.0.1
echo 127.0.0.1 here localhost >/etc/hosts
mkdir -p /slurm/{state,n1,n2}
cd /slurm
head -c 128 /dev/urandom >munge.key
chmod 600 munge.key
cat >slurm.conf <<END
ClusterName=test
SlurmctldHost=here(127.0.0.1)
SlurmUser=root
AuthInfo=socket=/slurm/munge.sock
StateSaveLocation=/slurm/state
SlurmdSpoolDir=/slurm/%n
SlurmctldPidFile=/slurm/slurmctld.pid
SlurmdPidFile=/slurm/%n.pid
SlurmctldLogFile=/slurm/slurmctld.log
SlurmdLogFile=/slurm/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePass=/slurm/munge.sock
AccountingStorageTRES=gres/gpu
GresTypes=gpu
NodeName=n1 NodeHostname=here NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:v100:4
PartitionName=main Nodes=n1 Default=YES
END
echo CgroupPlugin=disabled >cgroup.conf
cat >slurmdbd.conf <<END
AuthInfo=socket=/slurm/munge.sock
DbdHost=here
DbdAddr=127.0.0.1
SlurmUser=root
PidFile=/slurm/slurmdbd.pid
LogFile=/slurm/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
END
chmod 600 slurmdbd.conf
for gpu in 0 1 2 3; do mknod gpu$gpu c 1 3; done # as /dev/null
echo 'Name=gpu Type=v100 File=/slurm/gpu[0-3]' >gres.conf
export SLURM_CONF=/slurm/slurm.conf
until_true() { # a shell command, for at most a minute
    for ((i = 0; i < 300; i++)); do
        bash -c "$1" >log 2>&1 && return
        sleep 0.2
    done
    echo "in vain: $1" >&2
    tail -n 3 ./*log >&2
    return 1
}
munged --force --key-file=munge.key --socket=/slurm/munge.sock --pid-file=munged.pid --log-file=munged.log \
    --seed-file=munge.seed 2>log
mariadb-install-db --no-defaults --user=root --auth-root-authentication-method=normal --datadir=/slurm/db >log 2>&1
mariadbd --no-defaults --user=root --datadir=/slurm/db --socket=/slurm/db.sock --bind-address=127.0.0.1 >db.log 2>&1 &
grant="create user slurm@'127.0.0.1' identified by 'slurm'; grant all on slurm_acct_db.* to slurm@'127.0.0.1'"
until_true "mariadb --no-defaults --socket=/slurm/db.sock --user=root --execute=\"$grant\""
LD_LIBRARY_PATH=/old/usr/lib/$(uname -m)-linux-gnu slurmdbd
until_true "sacctmgr -n show cluster"
slurmctld -i -c 2>log
slurmd -N n1
until_true '[ "$(sinfo -hN -t idle | wc -l)" = 1 ]'

printf '#!/bin/sh\n#SBATCH --gres=gpu:v100:1\nsleep 600\n' >script
sbatch -Q -o /dev/null --gres=gpu:v100:1 --wrap 'sleep 600'
sbatch -Q -o /dev/null --gpus=v100:1 --wrap 'sleep 600'
sbatch -Q -o /dev/null script
sbatch -Q -o /dev/null --gpus=1 --wrap 'sleep 600'
until_true '[ "$(sacct -a -n -X -P -o alloctres -s R | grep -c gpu)" = 4 ]'
{
    squeue --json | jq -r 'def gpus: split(",") | map(select(test("gpu"))) | join(",");
        .jobs[] | "squeue \(.job_id): per node \"\(.tres_per_node)\", per job \"\(.tres_per_job)\", " +
        "requested \(.tres_req_str | gpus), allocated \(.tres_alloc_str | gpus)"' | sort
    sacct -a --json | jq -r 'def gpus: map(select(.type == "gres") | [.name, .count]);
        .jobs[] | "sacct \(.job_id): requested \(.tres.requested | gpus), allocated \(.tres.allocated | gpus), " +
        "fields with v100: \([paths(strings | test("v100")) | map(tostring) | join(".")])"'
} >seen

cat >expected <<'END'
squeue 1: per node "gres/gpu:v100:1", per job "", requested gres/gpu=1, allocated gres/gpu=1
squeue 2: per node "", per job "gres/gpu:v100:1", requested gres/gpu=1, allocated gres/gpu=1
squeue 3: per node "gres/gpu:v100:1", per job "", requested gres/gpu=1, allocated gres/gpu=1
squeue 4: per node "", per job "gres/gpu:1", requested gres/gpu=1, allocated gres/gpu=1
sacct 1: requested [["gpu",1]], allocated [["gpu",1]], fields with v100: ["submit_line"]
sacct 2: requested [["gpu",1]], allocated [["gpu",1]], fields with v100: ["submit_line"]
sacct 3: requested [["gpu",1]], allocated [["gpu",1]], fields with v100: []
sacct 4: requested [["gpu",1]], allocated [["gpu",1]], fields with v100: []
END
if diff expected seen >&2; then
    echo "as found:"
    cat seen
else
    echo "another behaviour: lines with < were found once, lines with > are so now" >&2
    exit 1
fi
