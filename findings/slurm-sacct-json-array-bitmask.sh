#!/bin/bash
# Slurm 24.11.5: sacct --json tells which tasks of an array wait as a bit mask, where squeue --json tells a list.
#
# Expected: the waiting tasks of "sbatch --array=3,7-20:2" are a list of numbers and ranges in sacct --json too.
# Seen: squeue --json has "array_task_string": "3,7,9,11,13,15,17,19" and sacct -P 3_[3,7,9,11,13,15,17,19]; sacct
# --json has "array": {"task": "0xAAA88"}, in which bit n stands for task n. The mask of --array=0-5%3 is 0x3F, and
# its limit of three tasks at once stands in "limits".
# What follows: a reader that parses the lists of squeue fails on sacct, or takes 0x3F for one task. The mask has as
# many bits as the array's highest task: with --array=1,200 it does not fit into an integer of 64 bits.
#
# Needs: root on Linux (chroot, namespaces), debootstrap, unshare, 2 GB of disk. Takes about two minutes. The daemons
# have a network of their own that is loopback alone.
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
NodeName=n1 NodeHostname=here NodeAddr=127.0.0.1 CPUs=8
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

sbatch -Q -o /dev/null --exclusive --wrap 'sleep 600'
until_true '[ "$(squeue -h -t R | wc -l)" = 1 ]'
sbatch -Q -o /dev/null --array=0-5%3 --wrap true
sbatch -Q -o /dev/null --array=3,7-20:2 --wrap true
sbatch -Q -o /dev/null --array=1,200 --wrap true
until_true '[ "$(sacct -a -n -X -P -o jobid -s PD | wc -l)" = 3 ]'
{
    squeue --json | jq -r '.jobs[] | select(.array_task_string != "") |
        "squeue --json \(.job_id): \(.array_task_string)"'
    sacct -a -n -X -P -s PD -o jobid | sed 's/^/sacct -P: /'
    sacct -a --json -s PD | jq -r '.jobs[] | "sacct --json \(.job_id): \(.array.task), " +
        "\(.array.limits.max.running.tasks) at once"'
} >seen

cat >expected <<'END'
squeue --json 2: 0-5%3
squeue --json 3: 3,7,9,11,13,15,17,19
squeue --json 4: 1,200
sacct -P: 2_[0-5%3]
sacct -P: 3_[3,7,9,11,13,15,17,19]
sacct -P: 4_[1,200]
sacct --json 2: 0x3F, 3 at once
sacct --json 3: 0xAAA88, 0 at once
sacct --json 4: 0x100000000000000000000000000000000000000000000000002, 0 at once
END
if diff expected seen >&2; then
    echo "as found:"
    cat seen
else
    echo "another behaviour: lines with < were found once, lines with > are so now" >&2
    exit 1
fi
