"""What cannot be read is told in one line that says where it is and what to do."""

import gzip
import io
import zipfile

import numpy as np
import pytest
from table_files import TABLE, buffer, read


def archive(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        members.writestr(name, content)
    return file.getvalue()


def npy_that_claims(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


UNREADABLE = [
    ("t.csv", "", "t.csv is empty; it needs the names of the columns and rows of numbers."),
    ("t.csv", "\n \n", "t.csv is empty;"),
    ("t.csv.gz", gzip.compress(b"", mtime=0), "t.csv.gz is empty;"),
    ("t.csv", "a,b\n", "t.csv has 2 columns but no rows; add the data."),
    ("t.csv", "a,b\n1,2\n\n3\n", "t.csv, line 4: 1 cells where there are 2 columns; correct it."),
    ("t.csv", "a,b\n1,2,3\n", "t.csv, line 2: 3 cells where there are 2 columns"),
    ("t.csv", "1,2\n3,4\n",
     "t.csv, line 1 holds numbers where names belong; add a first line, such as x0,x1."),
    ("t.csv", "a,b,a\n1,2,3\n", "t.csv, line 1: columns 1 and 3 are both called 'a'; rename one."),
    ("t.csv", ",a\n0,1\n",
     "t.csv, line 1: column 1 has no name; give it one (from pandas: `to_csv(index=False)`)."),
    ("t.csv", 'a,b\n1,"2\n3,4\n',
     "t.csv, line 3: unexpected end of data; is a quotation mark left open?"),
    ("t.csv", b"a,b\n1,2\n3,\xe9\n",
     "t.csv, line 3 holds bytes that are not UTF-8 text; export the table as CSV"),
    ("t.csv", b"a,b\n1,\x002\n", "t.csv, line 2 holds bytes that are not UTF-8 text"),
    ("t.csv", bytes(range(128, 256)), "t.csv, line 1 holds bytes that are not UTF-8 text"),
    ("t.csv", TABLE.encode("utf-16"), "t.csv is text in UTF-16; save it as UTF-8."),
    ("t.csv", gzip.compress(TABLE.encode(), mtime=0),
     "t.csv is compressed by gzip; add .gz to its name."),
    ("t.csv", archive("xl/workbook.xml", ""),
     "t.csv is a zip archive or an Excel workbook, not text; export"),
    ("t.csv.gz", TABLE, "t.csv.gz is not compressed by gzip; take .gz from its name."),
    ("t.csv.gz", gzip.compress(TABLE.encode() * 99, mtime=0)[:-9],
     "t.csv.gz is damaged or cut short; copy it again."),
    ("t.arff", TABLE, "t.arff, line 1: 'a,b,c' stands before `@data`; is this an ARFF file?"),
    ("t.arff", "@relation t\n@attribute a real\n", "t.arff ends without `@data`; is it whole?"),
    ("t.arff", "@relation t\n@data\n1\n", "t.arff ends without `@attribute`; is it whole?"),
    ("t.arff", "@attribute a\n@data\n1\n",
     "t.arff, line 1: an attribute is written `@attribute NAME numeric`"),
    ("t.arff", "@attribute a real\n@data\n1,2\n",
     "t.arff, line 3: 2 cells where there are 1 columns"),
    ("t.arff", "@attribute a real\n@data\n{0 2}\n",
     "t.arff, line 3: sparse rows are not read; write all values of a row."),
    ("t.arff", "@attribute a real\n@data\n'2\n", "t.arff, line 3: unexpected end of data"),
    ("t.arff", "@attribute a real\n@data\n", "t.arff has 1 columns but no rows"),
    ("t.npy", TABLE, "t.npy is damaged, or not an .npy file; write it again by `numpy.save`"),
    ("t.npy", "", "t.npy is damaged, or not an .npy file"),
    ("t.npy", npy_that_claims((10**16, 2)), "t.npy is damaged, or"),
    ("t.npy", npy_that_claims((10**20, 0)), "t.npy is damaged, or not an .npy file"),
    ("t.npz", archive("X.npy", npy_that_claims((10**20, 0))), "t.npz is damaged, or not an .npz"),
    ("t.npy", buffer(X=np.ones((2, 2))), "t.npy is damaged, or not an .npy file"),
    ("t.npy", np.ones(3), "t.npy: the array has the shape (3,); it must be (rows, columns)."),
    ("t.npy", np.ones((0, 3)), "t.npy: the array has the shape (0, 3); it needs rows and columns."),
    ("t.npy", np.array([[1, None]]),
     "t.npy holds Python objects, which are not read; save `numpy.asarray(x, float)`."),
    ("t.npy", np.array([["1"]]), "t.npy: the array holds <U1, not numbers"),
    ("t.npy", np.ones((2, 2), complex), "t.npy: the array holds complex128, not numbers"),
    ("t.npy", np.zeros(2, [("a", float)]), "t.npy: the array holds [('a', '<f8')], not numbers"),
    ("t.npy", np.array([[1, 2], [3, np.nan], [np.inf, 0]]),
     "t.npy: the array[2, 0] is inf, counted from 0; fill"),
    ("t.npz", TABLE, "t.npz is damaged, or not an .npz file"),
    ("t.npz", np.ones((2, 2)), "t.npz is damaged, or not an .npz file"),
    ("t.npz", buffer(X=np.ones((9, 9)))[:-50], "t.npz is damaged, or not an .npz file"),
    ("t.npz", archive("X", "text"), "t.npz: X holds bytes, not numbers"),
    ("t.npz", archive("other.txt", "text"), "t.npz has no array 'X' but 'other.txt'"),
    ("t.npz", {"arr_0": np.ones((2, 2))},
     "t.npz has no array 'X' but 'arr_0'; write it by `numpy.savez('t.npz', X=X)`."),
    ("t.npz", {}, "t.npz has no array 'X' but none;"),
    ("t.npz", {"X": np.array([[object()]])}, "t.npz holds Python objects, which are not read"),
    ("t.npz", {"X": np.ones((3, 2)), "y": np.ones(2)},
     "t.npz: X has 3 rows and y has 2 rows; they must belong together."),
    ("t.npz", {"X": np.ones((3, 2)), "y": np.ones((3, 1, 1))},
     "t.npz: y has the shape (3, 1, 1); it must be (rows"),
    ("t.npz", {"X": np.ones(3)}, "t.npz: X has the shape (3,); it must be (rows, columns)."),
    ("t.npz", {"X": np.array([[np.inf]])},
     "t.npz: X[0, 0] is inf, counted from 0; fill it in, or remove the row."),
    ("t.xlsx", archive("xl/workbook.xml", ""),
     "t.xlsx: its name must end in .csv, .csv.gz, .arff, .npy or .npz (text with"),
    ("t.txt", TABLE, "t.txt: its name must end in .csv,"),
    ("table", TABLE, "table: its name must end in .csv,"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "message"), UNREADABLE, ids=[f"{m[2][:50]}" for m in UNREADABLE]
)
def test_what_cannot_be_read_is_told_in_one_line(name, content, message, tmp_path):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as info:
        read(tmp_path, name, content)
    assert message in str(info.value)
    assert str(tmp_path) in str(info.value)
