"""Values and adjoints of versions: summarised or kept whole, within limits, with what is missing said."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.trace import Trace, TraceError, load_trace, summarise, trace_from_json


@wp.struct
class State:
    q: wp.array(dtype=wp.vec2)
    qd: wp.array(dtype=wp.vec2)


@wp.kernel
def step(state: State, dt: float):
    i = wp.tid()
    state.qd[i] = state.qd[i] * 0.5
    state.q[i] = state.q[i] + dt * state.qd[i]


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def recorded(mode: str = "preserve") -> tuple[wp.Tape, wp.array, wp.array, wp.array]:
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape(on_overwrite=mode)
    with tape:
        wp.launch(square, dim=3, inputs=[x, y])
        wp.launch(square, dim=3, inputs=[y, x])
        wp.launch(total, dim=3, inputs=[x, loss])
    tape.backward(loss)
    return tape, x, y, loss


def test_every_version_is_kept_with_its_adjoint() -> None:
    tape, *_ = recorded()
    trace = tape.trace(values="arrays")
    assert trace.values("x", 0).tolist() == [1, 2, 3]
    assert trace.values("y", 1).tolist() == [1, 4, 9]
    assert trace.values("x").tolist() == [1, 16, 81]
    assert trace.values("loss").tolist() == [98]
    assert trace.adjoints("y", 1).tolist() == [2, 8, 18]
    assert trace.adjoints("x", 0).tolist() == [4, 32, 108]
    assert trace.adjoints(trace.array("x").id, 1).tolist() == [1, 1, 1]
    assert trace.notes == []
    for item in trace.contents:
        version = trace.versions_of(item.array)[item.version]
        summary = version.value if item.kind == "value" else version.adjoint
        assert summary == summarise(trace.data[item.member])
    with pytest.raises(ValueError, match="read-only"):
        trace.values("x", 0)[0] = 7.0


def test_the_users_arrays_stay_as_they_are() -> None:
    tape, x, y, _ = recorded()
    before = [a.numpy().copy() for a in (x, y, x.grad, y.grad)]
    tape.trace(values="arrays")
    for a, values in zip((x, y, x.grad, y.grad), before, strict=True):
        assert np.array_equal(a.numpy(), values)


def test_fields_of_structs_are_whole_arrays_of_vectors(tmp_path: Path) -> None:
    state = State()
    state.q = wp.array([[1, 2], [3, 4]], dtype=wp.vec2, requires_grad=True)
    state.qd = wp.array([[4, 4], [8, 8]], dtype=wp.vec2, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(step, dim=2, inputs=[state, 0.5])
    tape.trace(values="arrays").save(tmp_path / "file")
    trace = load_trace(tmp_path / "file")
    assert [arg.name for arg in trace.launches[0].args] == ["state.q", "state.qd", "dt"]
    assert trace.values("state.qd").tolist() == [[2, 2], [4, 4]]
    assert trace.values("state.q").tolist() == [[2, 3], [5, 6]]
    assert trace.values("state.q", 0).shape == (2, 2)
    assert zipfile.ZipFile(tmp_path / "file").namelist() == [
        "trace.json",
        "arrays/0000-v0.bin",
        "arrays/0001-v0.bin",
        "arrays/0000-v1.bin",
        "arrays/0001-v1.bin",
    ]


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        (wp.float16, "<f2"),
        (wp.float64, "<f8"),
        (wp.int8, "|i1"),
        (wp.uint64, "<u8"),
        (wp.bool, "|b1"),
        (wp.mat33, "<f4"),
        (wp.quat, "<f4"),
    ],
)
def test_all_types_survive_a_file(dtype: object, stored: str, tmp_path: Path) -> None:
    source = wp.zeros(4, dtype=dtype)
    source.fill_(dtype(1)) if stored[1] not in "f" or stored[2] != "4" else None
    tape = wp.Tape()
    with tape:
        target = wp.clone(source)
    tape.trace(values="arrays").save(tmp_path / "file")
    trace = load_trace(tmp_path / "file")
    assert {item.dtype for item in trace.contents} == {stored}
    assert np.array_equal(trace.values("target"), target.numpy())
    assert trace.values("target").dtype == target.numpy().dtype


def test_what_is_not_held_is_said() -> None:
    tape, *_ = recorded()
    structure = tape.trace()
    with pytest.raises(KeyError) as caught:
        structure.values("x", 1)
    assert caught.value.args[0] == (
        'the trace does not hold the values of version 1 of x: make it with tape.trace(values="arrays")'
    )
    whole = tape.trace(values="arrays")
    with pytest.raises(KeyError) as caught:
        whole.values("x", 5)
    assert caught.value.args[0] == (
        "the trace does not hold the values of version 5 of x: it has version 0, 1"
    )
    with pytest.raises(KeyError, match="no array is labelled 'q'"):
        whole.values("q")
    with pytest.raises(KeyError, match="does not hold the values of array -1"):
        whole.values(-1)
    copied = trace_from_json(json.loads(json.dumps(whole.to_json())))
    with pytest.raises(KeyError, match="of x: this copy of the trace came without arrays, as JSON does"):
        copied.values("x")


def test_as_many_as_fit_are_kept_and_the_rest_is_summarised() -> None:
    tape, *_ = recorded()
    trace = tape.trace(values="arrays", max_bytes=40)
    assert sum(values.nbytes for values in trace.data.values()) == 40
    assert all(version.value for version in trace.versions if version.reads or version.version)
    assert trace.notes == [
        "4 arrays (40 bytes) of values or adjoints are summarised only: max_bytes did not leave room"
    ]
    assert tape.trace(values=True).contents == []


def test_a_replay_that_takes_too_long_is_given_up_and_said() -> None:
    tape, *_ = recorded()
    trace = tape.trace(values=True, max_seconds=0)
    assert trace.notes == ["values are not complete: looking at them took longer than max_seconds=0"]
    assert all(version.value is None for version in trace.versions if version.version)
    assert tape.trace(values=True, max_seconds=None).notes == []


def test_other_words_for_values_are_refused() -> None:
    with pytest.raises(
        ValueError, match='^trace: values is False, True or "arrays"; got "all"$'.replace('"all"', "'all'")
    ):
        recorded()[0].trace(values="all")


@pytest.mark.parametrize(
    "limit", [{"max_bytes": -1}, {"max_bytes": None}, {"max_seconds": "1"}, {"max_bytes": True}]
)
def test_limits_that_are_none_are_refused(limit: dict[str, object]) -> None:
    ((name, value),) = limit.items()
    with pytest.raises(ValueError, match="is a number of 0 or more") as caught:
        recorded()[0].trace(values=True, **limit)
    assert str(caught.value) == f"trace: {name} is a number of 0 or more; got {value!r}"


def test_writes_outside_the_tape_begin_versions_with_values() -> None:
    x = wp.array([1.0, 2.0, 3.0, 4.0], dtype=float, requires_grad=True)
    y = wp.zeros(4, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(square, dim=4, inputs=[x, y])
        wp.launch(square, dim=2, inputs=[y, x[2:4]], record_tape=False)
        wp.launch(square, dim=4, inputs=[x, y])
    trace = tape.trace(values="arrays")
    assert trace.values("x", 0).tolist() == [1, 2, 3, 4]
    assert trace.values("x", 1).tolist() == [1, 2, 1, 16]
    assert trace.launches[1].args[0].read_version == 1
    assert trace.values("y", 2).tolist() == [1, 4, 1, 256]


def test_adjoints_before_a_custom_function_are_left_out_and_said() -> None:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    y, z = (wp.zeros(2, dtype=float, requires_grad=True) for _ in range(2))
    loss = wp.zeros(1, dtype=float, requires_grad=True)

    def double() -> None:
        y.grad.assign(z.grad.numpy() * 2)

    tape = wp.Tape()
    with tape:
        wp.launch(square, dim=2, inputs=[x, y])
        z.assign(y.numpy() * 2)
        tape.record_func(double, [y, z])
        wp.launch(total, dim=2, inputs=[z, loss])
    tape.backward(loss)
    trace = tape.trace(values=True)
    known = {
        (trace.arrays[version.array].label, version.version) for version in trace.versions if version.adjoint
    }
    at = next(launch.index for launch in trace.launches if launch.kind == "func")
    assert ("loss", 1) in known
    assert not any(label in ("x", "y") for label, _ in known)
    assert trace.notes == [
        f"adjoints of what was written before launch {at} are left out: it is the custom function double, "
        "which works on the arrays themselves and is not replayed"
    ]


# --------------------------------------------------------------------------------------- files


def saved(path: Path) -> Trace:
    trace = recorded()[0].trace(values="arrays")
    trace.save(path)
    return trace


def rewritten(path: Path, change: dict[str, bytes | None], method: int = zipfile.ZIP_STORED) -> str:
    """The message for a file in which members were replaced or left out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**members, **change}.items():
            if content is not None:
                archive.writestr(name, content, method if name in change else None)
    with pytest.raises(TraceError) as caught:
        load_trace(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_arrays_survive_a_file_bit_for_bit(tmp_path: Path) -> None:
    trace = saved(tmp_path / "file")
    again = load_trace(tmp_path / "file")
    assert again.contents == trace.contents
    for member, values in trace.data.items():
        assert again.data[member].tobytes() == values.tobytes()
        assert again.data[member].shape == values.shape
    again.save(tmp_path / "again")
    assert load_trace(tmp_path / "again").to_json() == trace.to_json()


def test_a_file_says_enough_to_be_read_without_us(tmp_path: Path) -> None:
    """Read the file by its documentation alone, as a reader in another language would."""
    saved(tmp_path / "file")
    with zipfile.ZipFile(tmp_path / "file") as archive:
        data = json.loads(archive.read("trace.json"))
        x = next(info["id"] for info in data["arrays"] if info["label"] == "x")
        (item,) = (
            item
            for item in data["contents"]
            if (item["array"], item["version"], item["kind"]) == (x, 1, "value")
        )
        assert item == {
            "array": x,
            "version": 1,
            "kind": "value",
            "dtype": "<f4",
            "shape": [3],
            "member": f"arrays/{x:04}-v1.bin",
        }
        assert archive.getinfo(item["member"]).compress_type == zipfile.ZIP_STORED
        assert np.frombuffer(archive.read(item["member"]), "<f4").tolist() == [1, 16, 81]


def test_arrays_that_are_not_what_the_json_says_are_refused(tmp_path: Path) -> None:
    path, member = tmp_path / "file", "arrays/0000-v0.bin"
    saved(path)
    assert rewritten(path, {member: None}) == f"contents[0].member: the zip holds no {member!r}"
    saved(path)
    assert rewritten(path, {member: b"1234"}) == (
        f"contents[0]: {member!r} is 4 bytes long in the zip; 12, not packed, were expected"
    )
    saved(path)
    assert rewritten(path, {member: bytes(12)}, zipfile.ZIP_DEFLATED) == (
        f"contents[0]: {member!r} is 12 bytes long in the zip; 12, not packed, were expected"
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "dtype",
            "O",
            "contents[0].dtype: 'O' is none of <f2, <f4, <f8, <i2, <i4, <i8, <u2, <u4, <u8, |b1, |i1, |u1",
        ),
        ("shape", [2**62], "contents[0].shape: [4611686018427387904] does not begin with the array's, [3]"),
        (
            "shape",
            [3, 2**40, 2**40],
            "contents[0]: 'arrays/0000-v0.bin' is 12 bytes long in the zip; "
            "14,507,109,835,375,550,096,474,112, not packed, were expected",
        ),
        ("shape", [3, -1], "contents[0].shape: -1 is no size"),
        ("member", "../../etc/passwd", "contents[0].member: the zip holds no '../../etc/passwd'"),
    ],
)
def test_lies_about_arrays_are_refused(key: str, value: object, message: str, tmp_path: Path) -> None:
    saved(tmp_path / "file")
    with zipfile.ZipFile(tmp_path / "file") as archive:
        data = json.loads(archive.read("trace.json"))
    data["contents"][0][key] = value
    assert rewritten(tmp_path / "file", {"trace.json": json.dumps(data).encode()}) == message


def test_members_inside_members_are_refused(tmp_path: Path) -> None:
    """A stretch of the file may be listed many times, header in header; read, it would be many gigabytes."""
    data = saved(tmp_path / "file").to_json()
    inner = zipfile.ZipInfo("inner")
    inner.file_size = inner.compress_size = 1 << 20
    inner.CRC = zlib.crc32(bytes(1 << 20))
    outer = inner.FileHeader() + bytes(1 << 20)
    data["contents"] = []
    for array, (name, size) in enumerate((("outer", len(outer)), ("inner", 1 << 20))):
        data["arrays"][array]["shape"] = [size]
        data["contents"].append(
            {"array": array, "version": 0, "kind": "value", "dtype": "|u1", "shape": [size], "member": name}
        )
    with zipfile.ZipFile(tmp_path / "file", "w") as archive:
        archive.writestr("trace.json", json.dumps(data))
        archive.writestr("outer", outer)
        around = archive.getinfo("outer")
        inner.header_offset = around.header_offset + len(around.FileHeader())
        archive.filelist.append(inner)
    with pytest.raises(TraceError) as caught:
        load_trace(tmp_path / "file")
    assert str(caught.value).removeprefix(f"{tmp_path / 'file'}: ") in {
        "contents[1]: arrays overlap in the zip, which is shorter than they are together",
        "the zip is damaged (Overlapped entries: 'outer' (poss...)",  # Python sees it itself from 3.12 on
        "the zip is damaged (Overlapped entries: 'inner' (poss...)",
    }


def test_a_trace_from_json_is_saved_without_the_arrays_that_it_lost(tmp_path: Path) -> None:
    trace_from_json(saved(tmp_path / "file").to_json()).save(tmp_path / "again")
    assert load_trace(tmp_path / "again").contents == []


def test_what_packs_too_well_is_not_packed(tmp_path: Path) -> None:
    trace = saved(tmp_path / "file")
    trace.coverage.notes = ["and so on"] * 1_000_000
    trace.save(tmp_path / "file")
    assert len(load_trace(tmp_path / "file").coverage.notes) == 1_000_000
    assert zipfile.ZipFile(tmp_path / "file").getinfo("trace.json").compress_type == zipfile.ZIP_STORED
