# Runs a program as if Debian's packages were installed, in a mount namespace of its own that nobody else sees.
# $1: the folder of unpacked packages; $2: the program's own folder, which it sees as /run; the rest: the program.
set -e
packages=$1 own=$2
shift 2
mount -t overlay cosm-bench -o "lowerdir=$packages/usr:/usr" /usr
mount -t overlay cosm-bench -o "lowerdir=$own/etc:$packages/etc:/etc" /etc
mount --bind "$own" /run
# For shared memory, and for logs that are only ever read from memory.
mount -t tmpfs cosm-bench /dev/shm
# Not exec: this shell stays the namespace's first process, and all others end with it.
"$@"
exit $?
