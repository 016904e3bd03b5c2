#!/bin/sh
# Builds RocksDB once, as a static library, from the sources that the crate
# librocksdb-sys carries: the same files, defines and flags as its build.rs,
# but a few at a time in one translation unit, which takes a fifth of the time.
#
#   ./build-rocksdb.sh DIR [JOBS]
#   ROCKSDB_LIB_DIR=DIR ROCKSDB_STATIC=1 cargo build --release
set -eu

if [ $# -lt 1 ]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
jobs=${2:-$(nproc)}
cd "$(dirname "$0")"

crate() {
    cargo metadata --format-version 1 |
        tr ',' '\n' | sed -n "s|^\"manifest_path\":\"\(.*/$1-[^/]*\)/Cargo.toml\"\$|\1|p" | head -n 1
}
sys=$(crate librocksdb-sys)
lz4=$(crate lz4-sys)
if [ -z "$sys" ] || [ -z "$lz4" ]; then
    echo "no sources of librocksdb-sys and lz4-sys: run 'cargo fetch' first" >&2
    exit 1
fi

# 22 files in a unit: more saves little, and leaves cores idle at the end. A run
# that was interrupted goes on with the units that it had not compiled.
{ grep -v '^util/build_version.cc$' "$sys/rocksdb_lib_sources.txt" | sed "s|^|$sys/rocksdb/|"
  echo "$sys/build_version.cc"; } |
    sed 's|.*|#include "&"|' | split -l 22 -d --additional-suffix=.cc - "$out/unit-"

export CXX="${CXX:-c++}" FLAGS="-std=c++20 -O3 -march=native -fPIC -ffunction-sections \
-fdata-sections -include cstdint -w -DNDEBUG=1 -DLZ4=1 -DHAVE_ALIGNED_NEW \
-DHAVE_UINT128_EXTENSION -DOS_LINUX -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX \
-DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_AUXV_GETAUXVAL_PRESENT \
-DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT \
-I$sys/rocksdb/include -I$sys/rocksdb -I$sys -I$lz4/liblz4/lib \
-I$sys/rocksdb/third-party/gtest-1.8.1/fused-src"
# shellcheck disable=SC2016 # FLAGS is split by the inner shell.
printf '%s\n' "$out"/unit-*.cc |
    xargs -P "$jobs" -I UNIT sh -c '
        [ -f UNIT.o ] && exit
        echo "compiling UNIT" >&2
        $CXX $FLAGS -c UNIT -o UNIT.tmp && mv UNIT.tmp UNIT.o'
rm -f "$out/librocksdb.a"
ar crs "$out/librocksdb.a" "$out"/unit-*.o
rm -f "$out"/unit-*
echo "$out/librocksdb.a"
