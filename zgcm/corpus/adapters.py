"""Raw records of a source become samples: ids, canonical field names, defaults. Cleaned ones as they are."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from zgcm.config.corpus import Source
from zgcm.corpus.sample import CLEANED_KEYS, Sample, is_cleaned
from zgcm.errors import ZgcmError
from zgcm.records import Record, record_sha256


def adapt(records: Iterable[Record], source: Source, name: str, shard: str = "") -> Iterator[Sample]:
    """One sample a record.

    `field_map` copies raw -> canonical where only the raw key exists; `defaults` fills absent keys. A null is
    as good as absent (parquet has every column in every row). `source`
    itself defaults to the dataset's name: the recipe says where the record comes from, so its absence in the
    record is no reason to doubt it. Records without a truthy id are called `dataset:shard:index`.
    """
    dataset = source.dataset or name
    defaults = {"source": dataset, **source.defaults}
    prefix = f"{dataset}:{shard}:" if shard else f"{dataset}:"
    text_fields = tuple(source.text_fields)
    for index, record in enumerate(records):
        data = dict(record)
        for raw, canonical in source.field_map.items():
            if data.get(raw) is not None and data.get(canonical) is None:
                data[canonical] = data[raw]
        for key, value in defaults.items():
            if data.get(key) is None:
                data[key] = value
        yield Sample(
            dataset=dataset,
            source_id=str(data.get(source.id_field) or f"{prefix}{index}"),
            stage=source.stage,
            category=source.category,
            data=data,
            text_fields=text_fields,
        )


def adopt(records: Iterable[Record], source: Source, name: str, shard: str) -> Iterator[Sample]:
    """Samples of a shard that is clean already; its first record tells whether a cleaner wrote it.

    A cleaner's records keep their decision and marks. Raises ZgcmError for one whose `data` changed since.
    """
    rest = iter(records)
    first = next(rest, None)
    if first is None:
        return
    every = chain([first], rest)
    if not is_cleaned(first):
        yield from adapt(every, source, name, shard)
        return
    for number, record in enumerate(every, 1):
        yield _cleaned(record, source, f"record {number} of shard {shard} of sources.{name}")


def _cleaned(record: Record, source: Source, where: str) -> Sample:
    missing = sorted(CLEANED_KEYS - {"text_fields"} - record.keys())
    if missing:
        raise ZgcmError(
            "A cleaned shard holds a record that no cleaner wrote",
            where=where,
            found=f"no {', '.join(missing)}",
            expected="records of one form in a file",
            hint="keep cleaned and other records in files of their own",
        )
    digest = record_sha256(record["data"])
    if digest != record["record_sha256"]:
        raise ZgcmError(
            "A cleaned record was changed after it was cleaned",
            where=where,
            found=f"data with sha256 {digest}",
            expected=f"its record_sha256, {record['record_sha256']}",
            hint="restore the file; or give its data as records of your own",
        )
    marks: dict[str, Any] = {
        key: record[key] for key in ("decision", "reasons", "buckets", "metrics", "data")
    }
    return Sample(
        dataset=record["dataset"],
        source_id=record["source_id"],
        stage=record["stage"],
        category=record["category"],
        text_fields=tuple(record.get("text_fields", source.text_fields)),
        flags=set(record["flags"]),
        **marks,
    )
