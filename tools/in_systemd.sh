#!/bin/sh
# Boots systemd over a copy-on-write view of this machine, installs the planner there as
# docs/publishing.md does, and runs the tests of the unit: `make test-systemd`.
#
# Needs root, systemd-nspawn, and Debian's python3-venv. What is written goes into
# memory; this machine keeps its files, and its own processes know nothing of it.
set -eu

project=$(pwd)
[ "$(id -u)" = 0 ] || { echo "tools/in_systemd.sh needs root: sudo make test-systemd"; exit 2; }
command -v systemd-nspawn >/dev/null || {
    echo "There is no systemd-nspawn here: apt-get install systemd-container"
    exit 2
}

# Beside the root, not below it: a layer may not lie in another.
folder=$(mktemp -d)
mount -t tmpfs tmpfs "$folder"
trap 'umount "$folder/root" 2>/dev/null; umount "$folder"; rmdir "$folder"' EXIT
mkdir "$folder/written" "$folder/work" "$folder/root"
mount -t overlay overlay "$folder/root" \
    -o "lowerdir=/,upperdir=$folder/written,workdir=$folder/work"
root=$folder/root
# A project on another file system is not part of the view.
inside() {
    systemd-nspawn --quiet --directory="$root" --register=no --keep-unit \
        --bind="$project" "$@"
}

inside --pipe --chdir="$project" /bin/sh -euc '
    rm -rf /opt/planner
    /usr/bin/python3 -m venv /opt/planner
    /opt/planner/bin/python tools/lock.py app >/opt/planner/app.lock
    /opt/planner/bin/pip install --quiet --require-hashes -r /opt/planner/app.lock
    cp -a --parents planner vllm_memory_planner.py tools/wheel_hook.py tools/wheel_names.py jupyter-config pyproject.toml README.md LICENSE notebooks /opt/planner
    /opt/planner/bin/pip install --quiet --no-deps /opt/planner
'

units=$root/etc/systemd/system
cat >"$units/planner-tests.service" <<UNIT
[Unit]
SuccessAction=exit
FailureAction=exit

[Service]
Type=oneshot
WorkingDirectory=$project
Environment=HOME=/root PYTHONPATH=$project PYTHONDONTWRITEBYTECODE=1
StandardOutput=file:/var/log/planner-tests
StandardError=inherit
ExecStart=$project/.venv/bin/python -m pytest -q -rs -p no:cacheprovider tests/test_deploy.py -k unit
UNIT
mkdir -p "$units/multi-user.target.wants"
ln -sf ../planner-tests.service "$units/multi-user.target.wants/"
ln -sf /lib/systemd/system/multi-user.target "$units/default.target"

status=0
inside --private-network --boot </dev/null >"$root/var/log/boot" 2>&1 || status=$?
cat "$root/var/log/planner-tests"
exit $status
