#!/bin/sh
# A stand-in for the base of deploy/Containerfile, where no registry of images can be
# reached: Debian's packages, and a Python of this machine in /usr/local, as the real one.
#
#     tools/container_base.sh podman docker.io/library/python:3.12-slim-bookworm
#
# Needs root, mmdebstrap, a mirror of Debian, and a Python of the version in the name
# that can be moved, such as pyenv's. The base trusts what this machine trusts.
set -eu

program=$1 name=$2
version=$(printf '%s' "$name" | sed 's/.*:\([0-9.]*\)-.*/\1/')
suite=${name##*-}
prefix=$("python$version" -c 'import os, sys; print(os.path.realpath(sys.base_prefix))')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/root

libraries=ca-certificates,libbz2-1.0,libexpat1,libffi8,liblzma5,libncursesw6,libreadline8
libraries=$libraries,libsqlite3-0,libssl3,libuuid1,netbase,tzdata,zlib1g
mmdebstrap --quiet --variant=minbase --include="$libraries" "$suite" "$folder/root.tar"
mkdir "$root"
tar -C "$root" -xf "$folder/root.tar"
rm -rf "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/* \
    "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*

cp -a "$prefix/bin" "$prefix/lib" "$root/usr/local/"
cd "$root/usr/local"
rm -rf bin/idle* bin/2to3* bin/pip* lib/"python$version"/site-packages/* \
    lib/"python$version"/test lib/"python$version"/idlelib \
    lib/"python$version"/tkinter lib/"python$version"/config-*
find . -name __pycache__ -prune -exec rm -rf {} +
find . -name '*.a' -delete
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$root/etc/pip.conf"
chroot "$root" ldconfig
chroot "$root" python3 -m ensurepip >/dev/null
ln -sf pip3 bin/pip

tar -C "$root" -c . | "$program" import \
    --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'CMD ["python3"]' - "$name"
