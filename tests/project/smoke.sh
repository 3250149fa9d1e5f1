#!/usr/bin/env bash
# Installs a wheel or sdist into an empty environment, and uses it: tests/project/smoke.sh dist/*.whl
# PYTHON names another interpreter, CONSTRAINTS a file of versions, INSTALL another installer, such as "uv pip install".
set -euo pipefail
package=$(realpath "$1")
constraints=${CONSTRAINTS:+-c $(realpath "$CONSTRAINTS")}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv environment
export PATH="$folder/environment/bin:$PATH" VIRTUAL_ENV="$folder/environment" MMLP_CACHE="$folder/programs" MPLBACKEND=agg
unset PYTHONPATH
# shellcheck disable=SC2086
${INSTALL:-pip install --quiet --disable-pip-version-check} $constraints "$package"

python - <<'END'
import csv, importlib.metadata, pathlib, random
import mmlp

root = pathlib.Path(mmlp.__file__).parent
assert "environment" in root.parts, root
for name in ("py.typed", "reporting/templates/base.html", "reporting/templates/style.css"):
    assert (root / name).is_file(), name
files = importlib.metadata.files("matrix-mlp")
assert any(file.name == "LICENSE" for file in files)
assert not [file for file in files if file.parts[0] in ("tests", "docs", "benchmarks", "results", "reproduction")]

draw = random.Random(0).gauss
with open("wind.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["height", "heat", "u", "v"])
    for _ in range(40):
        height, heat = draw(0, 1), draw(0, 1)
        rows.writerow([height, heat, height + draw(0, 1), heat - height + draw(0, 1)])
END

[ "$(mmlp --version)" = "mmlp $(python -c 'import mmlp; print(mmlp.__version__)')" ]
mmlp fit regression wind.csv --targets u,v --epochs 3 --models 2 --report page --quiet -o wind.safetensors >/dev/null 2>&1
grep -q '<title>matrix-mlp' page/index.html
mmlp info wind.safetensors | grep -q 'height, heat'
[ "$(mmlp predict wind.safetensors - <wind.csv | wc -l)" -eq 41 ]
mmlp score wind.safetensors wind.csv --json | grep -q '"rows": 40'
echo "$(basename "$package") installs and works on $(python --version)."
