"""Raw records of a source become samples: ids, canonical field names, defaults."""

from collections.abc import Iterable, Iterator

from zgcm.config.corpus import Source
from zgcm.corpus.sample import Sample
from zgcm.records import Record


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
