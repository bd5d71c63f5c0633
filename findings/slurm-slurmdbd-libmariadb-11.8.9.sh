#!/bin/bash
# Debian 13's slurmdbd 24.11.5 does not start with the libmariadb3 11.8.9 that Debian 13 has by now.
#
# Expected: slurmdbd starts with Debian's packages as they are, since apt-get installs the two together.
# Seen: slurmdbd ends with "fatal: _check_mysql_concat_is_sane", since its first query fails with the library's error
# 5027. The mariadb command gets an answer to the same query from the same server, and the same slurmdbd starts when it
# finds Debian 12's libmariadb3 (10.11).
# What follows: a cluster on Debian 13 has no accounting after this upgrade. An older libmariadb3 in
# slurmdbd's LD_LIBRARY_PATH helps.
#
# Needs: root on Linux (chroot, namespaces), debootstrap, unshare, 2 GB of disk. Takes about two minutes. The daemons
# have a network of their own that is loopback alone.
set -Eeuo pipefail
trap 'exit 2' ERR
if [ "${1:-}" != inside ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    debootstrap --variant=minbase --include=slurmdbd,slurm-wlm-mysql-plugin,mariadb-server,munge,iproute2 trixie \
        "$work/root" >"$work/log" 2>&1 || {
        tail "$work/log" >&2
        exit 2
    }
    sed s/trixie/bookworm/ "$work/root/etc/apt/sources.list" >"$work/root/etc/apt/sources.list.d/old.list"
    chroot "$work/root" sh -c 'apt-get update && cd /tmp && apt-get download libmariadb3/bookworm &&
        dpkg -x libmariadb3_*.deb /old' >"$work/log" 2>&1
    [[ $(chroot "$work/root" dpkg-query -W -f '${Version}' slurmdbd) == 24.11.5-* ]]
    [[ $(chroot "$work/root" dpkg-query -W -f '${Version}' libmariadb3) == 1:11.8.9* ]]
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
mkdir -p /slurm
cd /slurm
head -c 128 /dev/urandom >munge.key
chmod 600 munge.key
cat >slurmdbd.conf <<END
AuthInfo=socket=/slurm/munge.sock
DbdHost=here
DbdAddr=127.0.0.1
SlurmUser=root
PidFile=/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
END
chmod 600 slurmdbd.conf
export SLURM_CONF=/slurm/slurm.conf # slurmdbd.conf is in the same folder
munged --force --key-file=munge.key --socket=/slurm/munge.sock --pid-file=munged.pid --log-file=munged.log \
    --seed-file=munge.seed 2>log
mariadb-install-db --no-defaults --user=root --auth-root-authentication-method=normal --datadir=/slurm/db >log 2>&1
mariadbd --no-defaults --user=root --datadir=/slurm/db --socket=/slurm/db.sock --bind-address=127.0.0.1 >db.log 2>&1 &
grant="create user slurm@'127.0.0.1' identified by 'slurm'; grant all on slurm_acct_db.* to slurm@'127.0.0.1'"
for ((i = 0; ; i++)); do
    mariadb --no-defaults --socket=/slurm/db.sock --user=root --execute="$grant" 2>log && break
    [ $i -lt 300 ]
    sleep 0.2
done
mariadb --no-defaults --host=127.0.0.1 --user=slurm --password=slurm --skip-column-names \
    --execute="select @var := concat('')" >answer
echo "mariadb: $(wc -l <answer) row" >seen
status=0
timeout 15 slurmdbd -D 2>log || status=$?
echo "slurmdbd ends with $status" >>seen
grep -oE 'mysql_query failed: .*|fatal: .*|slurmdbd version .* started' log >>seen
status=0
LD_LIBRARY_PATH=/old/usr/lib/$(uname -m)-linux-gnu timeout 15 slurmdbd -D 2>log || status=$?
echo "with the library of Debian 12: slurmdbd is stopped after 15 seconds with $status" >>seen
grep -oE 'mysql_query failed: .*|fatal: .*|slurmdbd version .* started' log >>seen

cat >expected <<'END'
mariadb: 1 row
slurmdbd ends with 1
mysql_query failed: 5027 Number of columns in result (=1) set execeeds maxmimum allowed number of columns (=0)
fatal: _check_mysql_concat_is_sane: null result from query `select @var := concat('');`
with the library of Debian 12: slurmdbd is stopped after 15 seconds with 124
slurmdbd version 24.11.5 started
END
if diff expected seen >&2; then
    echo "as found:"
    cat seen
else
    echo "another behaviour: lines with < were found once, lines with > are so now" >&2
    exit 1
fi
