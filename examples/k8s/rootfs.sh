#!/bin/sh
# rootfs.sh PROGRAM DIRECTORY: puts the program and the shared libraries it loads into DIRECTORY, each library under its own path.
set -eu
program=$1 root=$2
mkdir -p "$root"
cp "$program" "$root/"
ldd "$program" | grep -o '/[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
