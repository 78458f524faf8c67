"""Names that users knew: they are taken with a warning, and files that have them in them are loaded for ever without one."""

import base64
import dataclasses
import json
import pickle
import warnings
import zlib

import pytest
import torch

import hinterland as hl
from hinterland import UnifiedTensor, machine, memory
from hinterland.cli.probe import probe as probe_command
from hinterland.memory import mapping
from hinterland.runtime.old_words import PLACEMENTS

from .machine.test_machine import a_machine

# Pickles that were written before the names changed, base64 of zlib: a table [[0, 1], [2, 3], [4, 5]] in heap memory, and the
# graph 0-1, 1-2, 2-3, 3-0, 3-1, reordered by degree, in registered memory.
TABLE = (
    "eNptkTtPwzAQx/Nqi8pDCBbYGMsS8Sx0okKoi8V7yYKsNHGpkYljx6lUpEpZiijyhtkYGPlq/QhIDFzahYGTfbLPP5//dy6896ltzUxv9GmiiG"
    "RhEvsq7DLi5wntURIbvSBJpriE5Ztp6CVYRn0f54qyzOg1LEk3pyzGiiQZl3iwN8OW51h5MbwnRq9ixsMY9yR/xN2hIhlQp+vweuG81tnPR+d7"
    "6+HratMvnPOpC34krEawCspSyRWPOMMDIjPKE2EDECzDCaNKMYJJEtMwEc5LUIegGqYEZ/SJZMIdCa8RVCCY9blUooKcwIUdFCqqyAu8MgdP7k"
    "UNeXkObzaCWgnPJQsrmpVQ74BwdTsP1oUdrADTOmjuNHf3Dg+Pd1pHTTHPG6W5cFH1QgnvGrLdCes/1g79qvXXihNwbRgwC5ifbTM2NwZZqDo2"
    "yB6biV6E+hmJFJQPLV+8lDGB7zijkYIubt8YBbyuzOQaXeuVgvfLb0Aucp6N9vokTM2kpPxf0Jqc4g=="
)
GRAPH = (
    "eNrVlE1v0zAYx9M26Ua7ThVIE3BAaAdULpXW0rFeJwRCGQXGJRdk5cVLDJldO87QkCqVQ9GGfJu58QH4anwEJA48eWlVqk7iuijK49h/P7b/vz"
    "yZmt+/WkZ+qZ2IUIlF7NKgGwp3HBVPrawXebzSj7/oie6obYpJGHlMoJgkMtFrZpYDrVGpPMrfFxnqrhDueVK0CQ3GUmh1dymLdL0Yd1NKTggO"
    "tNoUOJFMQPMKZmxB04+6KJUkhkVuI4G9lMQBkpgmsKuzXi5rFbJsohtirdooZm6ATgQ7Rd65xNl+DncrhjGtfmvEf348//3ww88397rT6qtfNX"
    "hOuNFx2uDMWDDJfBajMywSwiivgMBpwUhMpIwxwjQgLuXVC6cBnfJ8jFFCPuOE1ybc7DiZwUnEhOSWXXVq8AYH5XXbdMwsB6Mh37DNNIU1O85G"
    "Ji62zA0/P0LjCCTvir4GrzjbIBn2h8ODp3sHw/6gN9znRVp/nPKabY0kN99CsvfcWKetuN0S+eKqlrFWRrOMc52e6WNtG7Y103Zlpi9VE+yIsS"
    "/BDSDQfC0CDHSeEV9mkI+1BL2y8t1DhOPuP4GBbL5qCBzC15Dp9WWu24AvgPjAI2p3ojudaOewdROovKTyGiiD/mBv/+D/oJTaJSiVEkh1Ccgq"
    "gOhBaXK0m9vb75X2Ro9yT1O19ZGyTxRBPUgw+kLdoukpwkEINttW6qnNgAgAuBjzsCA0XFfLLIMLFHPIsEyB6P7NLpysFuD+h5F5DaO5FhiZK4"
    "ViLDFbLqQ5L3OVV9av6rHrYfh1jVQTSeHSZMwSADFKve5fKGuqKg=="
)


def loaded(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return pickle.loads(zlib.decompress(base64.b64decode(text)))


@pytest.mark.parametrize("word", ["registered", "heap", pytest.param("mapped", marks=pytest.mark.gpu)])
def test_a_placement_is_taken_by_its_old_name(word):
    today = PLACEMENTS[word]
    with pytest.warns(UserWarning, match=f"'{word}' is called '{today}' now"):
        assert UnifiedTensor.from_tensor(torch.arange(3), word).placement == today
    with pytest.warns(UserWarning, match=today):
        graph = hl.from_edges(torch.tensor([0]), torch.tensor([1]), placement={"indices": word})
    assert graph.placement["indices"] == today


def test_an_old_name_is_weighed_as_the_new_one():
    with pytest.warns(UserWarning, match="'mapped' is called 'managed' now"):
        old = memory.plan_sort("mapped", 1 << 20, 64, 48 << 30)
    assert old == memory.plan_sort("managed", 1 << 20, 64, 48 << 30)


def test_what_was_saved_with_an_old_name_is_loaded_without_a_word():
    table = loaded(TABLE)
    assert table.placement == "pageable" and table.cpu().tolist() == [[0, 1], [2, 3], [4, 5]]
    graph = loaded(GRAPH)
    assert set(graph.placement.values()) == {"pinned"}
    assert graph.to_original(graph.degrees()).tolist() == [1, 1, 1, 2]


def test_a_machine_that_was_kept_with_old_names_is_read():
    kept = dataclasses.replace(a_machine(), managed_limit=1 << 36)
    content = kept.to_json()
    content["mapped_limit"] = content.pop("managed_limit")
    words = {today: old for old, today in PLACEMENTS.items()}
    for point in (*content["rows"], *content["cpu"]["rows"], *content["link"]["sequential"]):
        point["mapping"] = words[point["mapping"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert machine.Machine.from_json(content) == kept


def test_the_old_setting_holds(monkeypatch):
    monkeypatch.setenv("HINTERLAND_MAPPED_LIMIT", "40MiB")
    with pytest.warns(UserWarning, match="HINTERLAND_MAPPED_LIMIT is called HINTERLAND_MANAGED_LIMIT now"):
        assert mapping._said() == mapping.Limit(40 << 20, "HINTERLAND_MAPPED_LIMIT")
    monkeypatch.setenv("HINTERLAND_MANAGED_LIMIT", "20MiB")
    assert mapping._said() == mapping.Limit(20 << 20, "HINTERLAND_MANAGED_LIMIT")


@pytest.mark.parametrize(
    ("of", "old", "new"),
    [
        (hl, "Prepared", hl.ResidentGraph),
        (hl.graph, "Prepared", hl.ResidentGraph),
        (memory, "mapped_limit", memory.managed_limit),
        (memory, "set_mapped_limit", memory.set_managed_limit),
    ],
)
def test_a_name_of_a_module(of, old, new):
    with pytest.warns(UserWarning, match=f"{old} is called"):
        assert getattr(of, old) is new
    with pytest.raises(AttributeError, match="nothing"):
        getattr(of, "nothing")  # noqa: B009


def test_names_of_methods():
    graph = hl.reorder(hl.from_edges(torch.tensor([0, 1, 1]), torch.tensor([1, 2, 3])), "degree")
    with pytest.warns(UserWarning, match="to_inner is called to_internal"):
        assert graph.to_inner(2) == graph.to_internal(2)
    with pytest.warns(UserWarning, match="to_outer is called to_original"):
        assert torch.equal(graph.to_outer(graph.degrees()), graph.to_original(graph.degrees()))
    with pytest.warns(UserWarning, match="outer is called original_ids"):
        assert graph.outer is graph.original_ids
    with pytest.warns(UserWarning, match="outer_lists is called original_lists"):
        assert graph.outer_lists().num_edges == 3
    for table in (UnifiedTensor.empty(3), UnifiedTensor.empty(3).tiered(local=4096, devices="cpu")):
        with pytest.warns(UserWarning, match="mapped_bytes is called managed_bytes"):
            assert table.mapped_bytes == table.managed_bytes


def test_names_of_fields():
    for of, old, new in (
        (dataclasses.replace(a_machine(), managed_limit=5), "mapped_limit", "managed_limit"),
        (memory.plan_sort("split", 100, 64, 1 << 20, managed_bytes=5), "mapped_bytes", "managed_bytes"),
        (mapping.MappingPlan(10, 5, mapping.Limit(5, "a test"), 0), "mapped", "managed"),
    ):
        with pytest.warns(UserWarning, match=f"{old} is called {new}"):
            assert getattr(of, old) == getattr(of, new) == 5


def test_the_old_argument_of_a_probe(monkeypatch):
    monkeypatch.setattr(machine.cache, "load", lambda: dataclasses.replace(a_machine(), managed_limit=5))
    with pytest.warns(UserWarning, match="mapped_limit is called managed_limit"):
        assert hl.probe(mapped_limit=5).managed_limit == 5


def test_of_both_names_of_an_argument_the_new_one_counts():
    with pytest.warns(UserWarning, match="mapped_bytes is called managed_bytes"):
        plan = memory.plan_sort("split", 100, 64, 1 << 20, mapped_bytes=5, managed_bytes=7)
    assert plan.managed_bytes == 7


def test_a_placement_of_all_arrays_is_told_once(recwarn):
    hl.from_edges(torch.tensor([0]), torch.tensor([1]), placement="heap")
    assert len([one for one in recwarn if "'heap' is called" in str(one.message)]) == 1


def test_of_both_names_of_an_option_the_new_one_counts(monkeypatch, capsys):
    kept = dataclasses.replace(a_machine(), managed_limit=7)
    monkeypatch.setattr(machine.cache, "load", lambda: kept)
    monkeypatch.setattr(machine.cache, "store", lambda changed: pytest.fail(f"{changed.managed_limit} is kept"))
    probe_command(managed_limit="7", old_limit="5", json=True)
    said = capsys.readouterr()
    assert json.loads(said.out)["managed_limit"] == 7 and "--mapped-limit is called --managed-limit now" in said.err
    probe_command(old_limit="7", json=True)
