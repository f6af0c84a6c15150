//! The design language as data: which keys there are, what they hold, what they mean.
//!
//! The reader checks a file against it, `nagaya schema` turns it into a JSON Schema, and a test holds
//! `docs/reference/design.md` to it. A key that is not here does not exist.

/// What a value looks like.
#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    Flag,
    Whole,
    Any,
    OneOf(&'static [&'static str]),
    /// `["PK", "SK"]`.
    Pair,
    ListOf(&'static Shape),
    Table(&'static Table),
    /// Names of the author's choice, each with a value of one shape.
    Named(&'static Shape),
    /// The first shape whose TOML type fits.
    Either(&'static [Shape]),
}

/// A table of the language and its keys.
#[derive(Debug)]
pub(crate) struct Table {
    /// How messages and the reference call it: `an entity`.
    pub(crate) called: &'static str,
    pub(crate) keys: &'static [Key],
    /// The shape of further keys, where the author chooses their names.
    pub(crate) rest: Option<&'static Shape>,
}

/// A key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
    /// The field types that it applies to; empty: all.
    pub(crate) only: &'static [&'static str],
    pub(crate) doc: &'static str,
}

const fn must(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key { name, shape, required: true, only: &[], doc }
}

const fn may(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key { name, shape, required: false, only: &[], doc }
}

const fn only(types: &'static [&'static str], name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key { name, shape, required: false, only: types, doc }
}

use Shape::{Any, Either, Flag, ListOf, Named, OneOf, Pair, Text, Whole};

/// The types that a field can have.
pub(crate) const TYPES: &[&str] =
    &["string", "number", "integer", "boolean", "timestamp", "date", "ulid", "uuid", "list", "map", "any"];

/// The formats that a string field can have.
pub(crate) const FORMATS: &[&str] = &["email", "uri", "hostname", "ip", "slug"];

/// The forms in which a timestamp is stored.
pub(crate) const PRECISIONS: &[&str] = &["seconds", "millis", "micros", "epoch", "any"];

/// What can be done with items.
pub(crate) const VERBS: &[&str] = &["create", "read", "update", "delete"];

/// The places where a wall can be.
pub(crate) const WALLS: &[&str] = &["key", "attribute", "public", "system"];

const NAME_TABLE: &str = "Name of the table in the store. `{base}` is `DYNAMODB_TABLE_NAME`, else the design's name. \
                          Default: `{base}-` and the name of this section.";

/// The whole file.
pub(crate) static DESIGN: Table = Table {
    called: "a design",
    keys: &[
        must("name", Text, "Name of the system: lower-case letters, digits and `-`."),
        must("version", Text, "Version of the design, `major.minor`. A breaking change needs a new major version."),
        may("description", Text, "What the system is, for the generated documentation."),
        may("database", Text, "Cosmos DB database that holds the containers. Default: the design's name."),
        must("tenant", Shape::Table(&TENANT), "Who the households are: the field that every wall is built on."),
        may("http", Shape::Table(&HTTP), "How the API is laid out."),
        may("audit", Shape::Table(&AUDIT), "Where every change is written down, in the same write as the change."),
        may("role", Named(&Shape::Table(&ROLE)), "Who may do what. Without roles everybody may do everything."),
        must("table", Named(&Shape::Table(&TABLE)), "The tables (containers in Cosmos DB)."),
        must("entity", Named(&Shape::Table(&ENTITY)), "What lies in the tables."),
        may("access", Named(&Shape::Table(&ACCESS)), "The access patterns: the only ways to list things."),
        may("aggregate", Named(&Shape::Table(&AGGREGATE)), "Event-sourced aggregates."),
    ],
    rest: None,
};

pub(crate) static TENANT: Table = Table {
    called: "the tenant",
    keys: &[
        must("field", Text, "The field that names the tenant of an item."),
        may("claim", Text, "The token's claim that carries the tenant. Default: the field's name."),
        may("system", Text, "The tenant that owns what belongs to the system itself."),
        may("roles", Text, "The token's claim with the caller's roles. Default: `roles`."),
        may(
            "member_of",
            Text,
            "The token's claim that lists the tenants the caller belongs to. Where a token has it, its tenant has to be among them.",
        ),
    ],
    rest: None,
};

pub(crate) static HTTP: Table = Table {
    called: "the HTTP section",
    keys: &[
        may("prefix", Text, "What every path starts with, such as `/v1`. Default: nothing."),
        may("visitors", Flag, "Whether what is public can be read without a token. Default: `false`."),
    ],
    rest: None,
};

pub(crate) static AUDIT: Table = Table {
    called: "the audit",
    keys: &[
        must("entity", Text, "The entity that holds the entries."),
        must("action", Text, "Its field for what was done, such as `user.create`."),
        must("actor", Text, "Its field for the user who did it."),
        may("target", Text, "Its field for the id of what it was done to."),
        may("at", Text, "Its timestamp field for the instant. Without it, let a field have the default `\"now\"`."),
        may("changes", Text, "Its map for the changed fields, each with its `old` and `new` value."),
        may("request", Text, "Its field for the id of the request."),
        may("address", Text, "Its field for where the request came from."),
        may("reason", Text, "Its field for the reason that an operator states."),
    ],
    rest: None,
};

pub(crate) static ROLE: Table = Table {
    called: "a role",
    keys: &[
        may("description", Text, "Whose role it is, for the generated documentation."),
        may(
            "may",
            ListOf(&Text),
            "What it permits: `*`, `ENTITY.VERB`, `ENTITY.*` or `*.VERB`. Verbs: `create`, `read`, `update`, `delete`.",
        ),
        may(
            "operator",
            Flag,
            "Whether it acts for the system itself, and so reaches what is behind the wall `system`. Default: `false`.",
        ),
    ],
    rest: None,
};

pub(crate) static TABLE: Table = Table {
    called: "a table",
    keys: &[
        may("name", Text, NAME_TABLE),
        may("description", Text, "What the table is for, for the generated documentation."),
        must("key", Pair, "The partition attribute and the sort attribute. Both hold strings."),
        may("index", Named(&Pair), "Secondary indexes: name, then partition attribute and sort attribute."),
        may("discriminator", Text, "The attribute that says which entity an item is, such as `type`."),
        may(
            "ttl",
            Text,
            "The attribute with the instant (seconds since 1970) after which an item is gone. On Cosmos DB it has to be `ttl`, and the engine stores the seconds that are left.",
        ),
        may(
            "recovery",
            OneOf(&["point-in-time", "none"]),
            "Whether the table can be restored to a past instant. Default: `none`.",
        ),
        may(
            "encryption",
            OneOf(&["kms", "default"]),
            "Encryption at rest: a key of your own, or the store's. Default: `default`.",
        ),
        may(
            "stream",
            Flag,
            "Whether changes are streamed. Default: `false`; an aggregate's event table has to say `true`.",
        ),
        may(
            "throughput",
            Either(&[OneOf(&["on-demand"]), Shape::Table(&THROUGHPUT)]),
            "Pay per request, or scale between two bounds. Default: `on-demand`.",
        ),
        may(
            "consistency",
            OneOf(&["strong", "bounded", "session", "prefix", "eventual"]),
            "Cosmos DB consistency level. Default: the account's.",
        ),
        may("indexing", Shape::Table(&INDEXING), "Cosmos DB indexing policy."),
    ],
    rest: None,
};

pub(crate) static THROUGHPUT: Table = Table {
    called: "a throughput",
    keys: &[
        must("min", Whole, "Lowest capacity per second (RU/s in Cosmos DB, units in DynamoDB)."),
        must("max", Whole, "Highest capacity per second."),
    ],
    rest: None,
};

pub(crate) static INDEXING: Table = Table {
    called: "an indexing policy",
    keys: &[
        may("mode", OneOf(&["consistent", "none"]), "Indexing mode. Default: `consistent`."),
        may("automatic", Flag, "Whether documents are indexed unasked. Default: `true`."),
        may("include", ListOf(&Text), "Paths to index, such as `/username/?`. Default: `/*`."),
        may("exclude", ListOf(&Text), "Paths not to index, such as `/metadata/*`."),
    ],
    rest: None,
};

pub(crate) static ENTITY: Table = Table {
    called: "an entity",
    keys: &[
        must("table", Text, "The table that it lies in."),
        may("description", Text, "What it is, for the generated documentation."),
        must("key", Named(&Text), "A template for each key attribute of the table."),
        may(
            "former_keys",
            ListOf(&Named(&Text)),
            "Key forms that older items have: read and explained, never written.",
        ),
        may("wall", OneOf(WALLS), "Where the wall between tenants is. Default: `key`."),
        may(
            "tenant",
            Either(&[Text, Flag]),
            "The field that holds its tenant, where it is not the design's tenant field; `false`: it belongs to no tenant and only an operator writes it.",
        ),
        may("discriminator", Text, "Its value of the table's discriminator. Default: the entity's name."),
        may(
            "index",
            Named(&Shape::Table(&INDEX)),
            "How it lies in the indexes of its table; not in one that is not named here.",
        ),
        may("fields", Named(&Shape::Table(&FIELD)), "Its fields."),
        may("version", Text, "The attribute with the optimistic version, counted by the store layer."),
        may("unique", ListOf(&Shape::Table(&UNIQUE)), "What no two items may have in common."),
        may(
            "ttl_after",
            Text,
            "How long it lives after its last write, such as `90d`. Units: `s`, `m`, `h`, `d`, `w`.",
        ),
        may("soft_delete", Shape::Table(&SOFT_DELETE), "Deleting marks the item and keeps it."),
        may("schema", Text, "Schema version that is written, `major.minor`; stored as `schemaVersion`."),
        may("change", ListOf(&Shape::Table(&CHANGE)), "Steps from one schema version to the next."),
        may("path", Text, "Its HTTP path. Default: the entity's name, plural."),
        may(
            "routes",
            ListOf(&OneOf(VERBS)),
            "What callers do with single items over HTTP. Default: all four. Access patterns have their routes in any case.",
        ),
        may("audit", Flag, "Whether its changes are written down, where the design has an audit. Default: `true`."),
    ],
    rest: None,
};

pub(crate) static INDEX: Table = Table {
    called: "an index mapping",
    keys: &[
        may("wall", OneOf(WALLS), "The wall of this index, where it is narrower than the entity's."),
        may("when", Text, "Keeps the item in the index only while this condition holds (a sparse index)."),
    ],
    rest: Some(&Text),
};

pub(crate) static UNIQUE: Table = Table {
    called: "a unique constraint",
    keys: &[
        must("fields", ListOf(&Text), "The fields that together have to be unique."),
        may(
            "within",
            OneOf(&["tenant", "all"]),
            "Unique among the items of one tenant, or among all. Default: `tenant`.",
        ),
        may("when", Text, "Only items for which this holds count."),
    ],
    rest: None,
};

pub(crate) static SOFT_DELETE: Table = Table {
    called: "a soft delete",
    keys: &[
        may("field", Text, "The field that tells deleted items apart."),
        may("value", Any, "What the field becomes on deletion."),
        may("at", Text, "The timestamp field that takes the instant of deletion."),
        may("by", Text, "The field that takes the user who deleted it."),
    ],
    rest: None,
};

pub(crate) static CHANGE: Table = Table {
    called: "a schema step",
    keys: &[
        must("from", Text, "The version that it starts from."),
        must("to", Text, "The version that it leads to."),
        may("add", Named(&Any), "Fields to add where they are missing, with their value."),
        may("drop", ListOf(&Text), "Fields to remove. Needs a new major version."),
        may("rename", Named(&Text), "Fields to rename, old name to new. Needs a new major version."),
        may("set", Named(&Any), "Fields to overwrite; `\"{other}\"` copies another field. Needs a new major version."),
    ],
    rest: None,
};

const TEXTUAL: &[&str] = &["string"];
const IDS: &[&str] = &["string", "ulid", "uuid"];
const COUNTED: &[&str] = &["string", "number", "integer", "list"];
const SIZED: &[&str] = &["string", "number", "integer", "list", "map", "any"];

pub(crate) static FIELD: Table = Table {
    called: "a field",
    keys: &[
        must("type", OneOf(TYPES), "What it holds."),
        may("description", Text, "What it means, for the generated documentation."),
        may("optional", Flag, "Whether it may be absent. Default: `false`."),
        may(
            "default",
            Any,
            "Its value where none is given. `\"new\"` makes an id (a ulid or uuid; for a string a ULID after its prefix), `\"now\"` the present (timestamp, date).",
        ),
        only(TEXTUAL, "format", OneOf(FORMATS), "What kind of text it is."),
        only(TEXTUAL, "pattern", Text, "Regular expression that the whole text has to match."),
        only(TEXTUAL, "one_of", ListOf(&Text), "The values that there are."),
        only(IDS, "prefix", Text, "What the text starts with, such as `user_`."),
        only(&["ulid", "uuid"], "also", Text, "Regular expression of older values that are still accepted."),
        only(
            &["timestamp"],
            "precision",
            OneOf(PRECISIONS),
            "Its stored form: `2026-01-01T00:00:00Z` (`seconds`, the default), with three or six decimals (`millis`, `micros`), the number of seconds since 1970 (`epoch`), or whatever RFC 3339 allows (`any`).",
        ),
        only(COUNTED, "min", Any, "Least value; for text its least length, for lists the least count."),
        only(
            SIZED,
            "max",
            Any,
            "Greatest value; for text its length in characters (default 256), for lists the count (default 100), for `map` and `any` the bytes as JSON (default 16384).",
        ),
        only(&["list"], "items", Shape::Table(&FIELD), "What the list's elements are."),
        only(&["map"], "fields", Named(&Shape::Table(&FIELD)), "The map's own fields; without them it holds anything."),
        may(
            "personal",
            Flag,
            "Whether it is personal data: masked in logs and audit, erased on request. Default: `false`.",
        ),
        may("immutable", Flag, "Whether it keeps its first value. Fields in a table key always do. Default: `false`."),
        may(
            "readonly",
            Flag,
            "Whether callers never give it: the system's own code sets it, or its default does. Default: `false`.",
        ),
        only(
            &["timestamp"],
            "since",
            Text,
            "The condition that it tells the beginning of: set when the condition comes to hold, gone when it ends.",
        ),
        may("secret", Flag, "Whether it is written but never read back. Default: `false`."),
        may("references", Shape::Table(&REFERENCE), "The entity whose id it holds."),
    ],
    rest: None,
};

pub(crate) static REFERENCE: Table = Table {
    called: "a reference",
    keys: &[
        must("entity", Text, "The entity that it refers to."),
        may(
            "on_delete",
            OneOf(&["restrict", "cascade"]),
            "What deleting that entity does: fail while this one exists, or delete this one too. Default: `restrict`.",
        ),
    ],
    rest: None,
};

pub(crate) static ACCESS: Table = Table {
    called: "an access pattern",
    keys: &[
        must("entity", Text, "The entity that it lists."),
        may("description", Text, "What it is for, for the generated documentation."),
        may("index", Text, "The index that serves it. Default: the table's key."),
        may(
            "by",
            ListOf(&Text),
            "The fields that the caller gives, apart from the tenant. Default: those of the partition.",
        ),
        may("range", Text, "The field of the sort key that `from` (inclusive) and `to` (exclusive) bound."),
        may("prefix", Text, "The field of the sort key whose beginning the caller gives, such as a month."),
        may("order", OneOf(&["asc", "desc"]), "Order of the sort key. Default: `asc`."),
        may("filter", Text, "Condition on what is returned; `{name}` is a parameter."),
        may("projection", ListOf(&Text), "The fields to return. Default: all."),
        may("limit", Whole, "Page size, 1 to 1000. Default: 100."),
        may(
            "returns",
            OneOf(&["many", "one", "count"]),
            "A page of items, the only item, or how many there are. Default: `many`.",
        ),
        may(
            "path",
            Either(&[Text, Flag]),
            "Its HTTP path, `{name}` for parameters; `false`: it has none, and only the system's own code asks it. Default: its name, with `-` for `_`.",
        ),
    ],
    rest: None,
};

pub(crate) static AGGREGATE: Table = Table {
    called: "an aggregate",
    keys: &[
        may("description", Text, "What it is, for the generated documentation."),
        must("id", Text, "The field with the aggregate's id."),
        must("events", Text, "The entity that holds its events."),
        must("head", Text, "The entity with its current version, written under a condition with every event."),
        may("idempotency", Text, "The entity that maps an idempotency key to its event."),
        may("snapshot", Text, "The entity that keeps its state, so that not all events have to be read."),
        may(
            "keys",
            Text,
            "The entity with the keys (`subjectId`, `key`) that personal fields of events are sealed with, one for each user: \
             destroying a key erases them.",
        ),
        may("projections", ListOf(&Text), "The entities that are built from its events."),
        must("event", Named(&Named(&Shape::Table(&FIELD))), "Its events, each with the fields of its data."),
    ],
    rest: None,
};
