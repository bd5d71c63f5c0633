#!/bin/bash
# Slurm 22.05.8 (Debian 12): squeue --json cuts the list of a waiting array's tasks, and writes others with a stride.
#
# Expected: array_task_string in JSON, which is for programs, tells every task that waits, in numbers and ranges.
# Seen: a list of more than 64 characters ends in "...", without another member that tells the rest; tasks in even
# steps become FIRST-LAST:STEP, even where the user wrote numbers. With SLURM_BITSTR_LEN=0 squeue tells the whole list.
# What follows: readers must know "..." and strides, and ask with SLURM_BITSTR_LEN=0.
#
# Needs: root, debootstrap, a Debian mirror; about 400 MB of disk. slurmctld listens on loopback, port 21817.
set -euo pipefail
version=22.05.8-4+deb12u3
root=$(mktemp -d) && chmod 755 "$root"
finish() {
    for pid in "$root"/run/slurmctld.pid "$root"/run/munged.pid; do
        kill "$(cat "$pid" 2>/dev/null)" 2>/dev/null || true
    done
    sleep 2
    umount "$root/proc" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap finish EXIT
debootstrap --variant=minbase bookworm "$root" http://deb.debian.org/debian >/dev/null || exit 2
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod +x "$root/usr/sbin/policy-rc.d"
chroot "$root" apt-get -qq install -y --no-install-recommends slurmctld slurm-client slurm-wlm-basic-plugins munge \
    >/dev/null 2>&1 || exit 2
have=$(chroot "$root" dpkg-query -W -f '${Version}' slurmctld)
[ "$have" = "$version" ] || { echo "Debian 12 has slurmctld $have now, and not $version"; exit 2; }
cat >"$root/etc/slurm/slurm.conf" <<'CONF'
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=21817
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge.sock
StateSaveLocation=/var/tmp
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldLogFile=/var/log/slurmctld.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
NodeName=n1 NodeAddr=127.0.0.1 CPUs=4 State=DOWN
PartitionName=main Nodes=n1 Default=YES
CONF
in_root() { chroot "$root" env HOME=/root "$@"; }
head -c 128 /dev/urandom >"$root/etc/munge/munge.key"
chroot "$root" chown munge /etc/munge/munge.key && chmod 400 "$root/etc/munge/munge.key"
in_root munged --force --key-file=/etc/munge/munge.key --socket=/run/munge.sock --pid-file=/run/munged.pid \
    --log-file=/var/log/munged.log --seed-file=/var/tmp/munge.seed
in_root slurmctld -c
for _ in $(seq 30); do in_root squeue -h >/dev/null 2>&1 && break || sleep 1; done
submit() { in_root sbatch --parsable "--array=$1" --wrap true; }
told() { in_root env "${@:2}" squeue --json | tr -d ' \n' | grep -o '"array_task_string":"[^"]*"' | sed -n "$1p"; }
submit 1,3-5,7,9-11,13,15-17,19,21-23,25,27-29,31,33-35,37,39-41,43,45-47,49,51-53 >/dev/null
submit 0,2,4,6,8,10,12,14 >/dev/null
list=$(told 1) stride=$(told 2) whole=$(told 1 SLURM_BITSTR_LEN=0)
echo "$list"; echo "$stride"; echo "$whole"
[[ $list == *'..."' ]] && [[ $stride == *'"0-14:2"' ]] && [[ $whole == *'51-53"' ]] || { echo "not as found"; exit 1; }
echo "as found: lists are cut and have strides; SLURM_BITSTR_LEN=0 shows them whole"
