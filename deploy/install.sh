#!/bin/sh
# Installs anabranch from this checkout into the environment $VENV, for the Makefile.
#
#   install.sh runs       installs what runs soonest: a compiled build that is at hand, or else the
#                         interpreted modules, which takes seconds. The compiled build is then made
#                         in the background, for the next time.
#   install.sh compiled   installs the compiled build, and waits until it is made.
#   install.sh sources    prints the files of which the package is built.
#
# $VENV/.runs is the stamp of the last installation of `runs`, $VENV/.installed that of `compiled`.
# The background makes a wheel in build/compiled, with the stamp `began`: a source that is newer
# than that is not in the wheel. Only one build at a time writes in build/.
set -eu
venv=${VENV:-.venv}
python=$venv/bin/python
wheels=build/compiled
pip="$python -m pip"
quiet="--quiet --disable-pip-version-check"

# The files of which the package is built; further words are tests of find.
sources() {
  find anabranch proto pyproject.toml setup.py MANIFEST.in README.md pyspark_anabranch.py \
    -type f ! -name '*_pb2*' ! -name '*.pyc' "$@" -print
}

# Whether a source has changed since the stamp $1 was written, or there is no such stamp.
changed_since() {
  [ ! -e "$1" ] || [ -n "$(sources -newer "$1")" ]
}

# Whether the background makes a wheel. It writes the stamp `ended`; without one it was killed, and
# its number may belong to another process by now, so it counts for an hour.
is_compiling() {
  [ -e $wheels/pid ] && [ ! -e $wheels/ended ] && kill -0 "$(cat $wheels/pid)" 2>/dev/null \
    && [ -n "$(find $wheels/began -mmin -60)" ]
}

# Whether there is a wheel that was made of the present sources.
has_wheel() {
  [ -n "$(find $wheels -name '*.whl' 2>/dev/null)" ] && ! changed_since $wheels/began
}

install_wheel() {
  $pip install $quiet --no-deps --force-reinstall $wheels/*.whl
}

can_compile() {
  command -v "${CC:-cc}" >/dev/null \
    && $python -c "import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()['include'], 'Python.h')))"
}

list_requirements() {
  $python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))
needs = p['project']['dependencies'] + [
    one for one in p['build-system']['requires'] if one.startswith(('setuptools', 'grpcio-tools'))]
print(*needs, 'wheel', sep='\n')"
}

compile_in_background() {
  mkdir -p $wheels
  rm -f $wheels/*.whl $wheels/ended
  touch $wheels/began
  nohup sh -c "nice -n 19 $pip wheel $quiet --no-deps -w $wheels .; touch $wheels/ended" \
    >$wheels/log 2>&1 &
  echo $! >$wheels/pid
}

install_requirements() {
  list_requirements >"$venv/runs.txt"
  $pip install $quiet -r "$venv/runs.txt"
}

install_interpreted() {
  touch "$venv/.runs.began"
  install_requirements
  rm -rf build/lib  # A compiled build has another folder in build/, and may be in the making.
  ANABRANCH_NO_COMPILE=1 $pip install $quiet --no-build-isolation --no-deps --force-reinstall .
  mv "$venv/.runs.began" "$venv/.runs"
}

install_what_runs() {
  changed_since "$venv/.installed" || return 0
  if ! is_compiling && has_wheel; then
    if [ ! -e "$venv/.runs" ]; then
      install_requirements  # The wheel is older than this environment.
    elif [ -z "$(find $wheels -name '*.whl' -newer "$venv/.runs")" ]; then
      return 0
    fi
    install_wheel
    touch "$venv/.runs"
    return 0
  fi
  ! changed_since "$venv/.runs" || install_interpreted
  case "${ANABRANCH_NO_COMPILE:-0}" in 0) ;; *) return 0 ;; esac
  if ! can_compile; then
    echo "The regions run interpreted: to compile them, install gcc and the headers of Python" \
      "(python3-dev on Debian)."
    return 0
  fi
  is_compiling || compile_in_background
  echo "The regions run interpreted this time. A compiled build, which is faster, is being made" \
    "meanwhile, in some minutes ($wheels/log). The next 'make up' runs it."
}

install_compiled() {
  while is_compiling; do sleep 1; done
  if has_wheel; then
    install_wheel
    return 0
  fi
  rm -rf build/lib* build/bdist*
  echo "building anabranch; the first time it compiles for some minutes"
  $pip install $quiet --no-build-isolation --no-deps --force-reinstall .
}

case "$1" in
  runs) install_what_runs ;;
  compiled) install_compiled ;;
  sources) sources ;;
esac
