//! The design language as data: every key, the kind of its value and its meaning.
//!
//! The reader checks files against it, `nagaya schema` turns it into a JSON Schema, and a test compares it with
//! `docs/reference/design.md`.

use crate::{
    design::{ResultKind, Wall},
    field::OnDelete,
    role::Verb,
    text_syntax::{StringFormat, TimestampPrecision},
};

/// The kind of a value.
#[derive(Debug)]
pub(crate) enum ValueKind {
    Text,
    Boolean,
    Integer,
    Any,
    OneOf(&'static [&'static str]),
    /// `["PK", "SK"]`.
    Pair,
    ListOf(&'static ValueKind),
    Table(&'static Table),
    /// A table whose keys the author names, each with a value of one kind.
    Named(&'static ValueKind),
    /// The first kind that matches the TOML type.
    Either(&'static [ValueKind]),
}

/// A table of the language and its keys.
#[derive(Debug)]
pub(crate) struct Table {
    /// Its name in messages and in the reference, such as `an entity`.
    pub(crate) noun: &'static str,
    pub(crate) keys: &'static [Key],
    /// The kind of further keys, which the author names.
    pub(crate) rest: Option<&'static ValueKind>,
}

/// A key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: ValueKind,
    pub(crate) required: bool,
    /// The field types that it applies to; empty: all.
    pub(crate) only: &'static [&'static str],
    pub(crate) doc: &'static str,
}

const fn required(name: &'static str, kind: ValueKind, doc: &'static str) -> Key {
    Key { name, kind, required: true, only: &[], doc }
}

const fn optional(name: &'static str, kind: ValueKind, doc: &'static str) -> Key {
    Key { name, kind, required: false, only: &[], doc }
}

const fn only_for(types: &'static [&'static str], name: &'static str, kind: ValueKind, doc: &'static str) -> Key {
    Key { name, kind, required: false, only: types, doc }
}

use ValueKind::{Any, Boolean, Either, Integer, ListOf, Named, OneOf, Pair, Text};

/// The value of `names`.
pub(crate) const FIRST_COME: &str = "first-come";

/// The types that a field can have.
pub(crate) const TYPES: &[&str] =
    &["string", "number", "integer", "boolean", "timestamp", "date", "ulid", "uuid", "list", "map", "any"];

const TEXTUAL: &[&str] = &["string"];
const IDS: &[&str] = &["string", "ulid", "uuid"];
const COUNTED: &[&str] = &["string", "number", "integer", "list"];
const SIZED: &[&str] = &["string", "number", "integer", "list", "map", "any"];

/// Fills the tables: a block for each, and in it a line for each key with the kind of its value and its meaning. `..` is
/// the kind of further keys, which the author names.
macro_rules! tables {
    ($($(#[$about:meta])* $table:ident $noun:literal {
        $($presence:ident $(($types:expr))? $name:literal: $kind:expr, $doc:expr;)+
        $(.. $rest:expr;)?
    })+) => {
        $(
            $(#[$about])*
            pub(crate) static $table: Table = Table {
                noun: $noun,
                keys: &[$($presence($($types,)? $name, $kind, $doc)),+],
                rest: tables!(@rest $($rest)?),
            };
        )+
    };
    (@rest) => { None };
    (@rest $rest:expr) => { Some(&$rest) };
}

tables! {
    /// The whole file.
    DESIGN "a design" {
        required "name": Text, "Name of the system: lower-case letters, digits and `-`.";
        required "version": Text, "Version of the design, `major.minor`. A breaking change needs a new major version.";
        optional "description": Text, "What the system is, for the generated documentation.";
        optional "database": Text, "Cosmos DB database that holds the containers. Default: the design's name.";
        required "tenant": ValueKind::Table(&TENANT),
            "Who the tenants are, and which field names the tenant of an item.";
        optional "http": ValueKind::Table(&HTTP), "How the API is laid out.";
        optional "audit": ValueKind::Table(&AUDIT), "Where every change is recorded, in the same write as the change.";
        optional "role": Named(&ValueKind::Table(&ROLE)),
            "Who may do what. Without roles every caller may do everything.";
        required "table": Named(&ValueKind::Table(&TABLE)), "The tables (containers in Cosmos DB).";
        required "entity": Named(&ValueKind::Table(&ENTITY)), "The kinds of items in the tables.";
        optional "access": Named(&ValueKind::Table(&ACCESS)), "The access patterns: the only ways to list things.";
        optional "aggregate": Named(&ValueKind::Table(&AGGREGATE)), "Event-sourced aggregates.";
    }

    TENANT "the tenant" {
        required "field": Text, "The field that names the tenant of an item.";
        optional "claim": Text, "The token's claim that carries the tenant. Default: the field's name.";
        optional "system": Text, "The tenant that owns the items of the system itself.";
        optional "roles": Text, "The token's claim with the caller's roles. Default: `roles`.";
        optional "member_of": Text,
            "The token's claim that lists the tenants the caller belongs to. A token with a tenant needs it, and the \
             tenant has to be among them.";
        optional "operator": Text,
            "The token's claim with the roles of operators, in tokens without a tenant. Default: `operatorRoles`.";
    }

    HTTP "the HTTP section" {
        optional "prefix": Text, "What every path starts with, such as `/v1`. Default: nothing.";
        optional "visitors": Boolean, "Whether public items can be read without a token. Default: `false`.";
    }

    AUDIT "the audit" {
        required "entity": Text, "The entity that holds the entries.";
        required "action": Text, "Its field for what was done, such as `user.create`.";
        required "actor": Text, "Its field for the user who did it.";
        optional "target": Text, "Its field for the id of what it was done to.";
        optional "at": Text, "Its timestamp field for the instant. Without it, let a field have the default `\"now\"`.";
        optional "changes": Text, "Its map for the changed fields, each with its `old` and `new` value.";
        optional "request": Text, "Its field for the id of the request.";
        optional "address": Text, "Its field for the address of the client.";
        optional "reason": Text, "Its field for the reason that an operator states.";
        optional "archive": ValueKind::Table(&ARCHIVE), "Where old entries move.";
    }

    ARCHIVE "the archive" {
        required "entity": Text, "The entity that takes the entries: it has the same fields.";
        required "after": Text, "The age from which entries move, such as `30d`. Units: `s`, `m`, `h`, `d`, `w`.";
    }

    ROLE "a role" {
        optional "description": Text, "Whose role it is, for the generated documentation.";
        optional "may": ListOf(&Text),
            "What it permits: `*`, `ENTITY.VERB`, `ENTITY.*` or `*.VERB`. Verbs: `create`, `read`, `update`, `delete`. \
             `ENTITY.VERB:own` and `ENTITY.*:own` permit it on the caller's own items only.";
        optional "operator": Boolean,
            "Whether it is the role of operators, who reach what is behind the wall `system`. Default: `false`.";
    }

    TABLE "a table" {
        optional "name": Text,
            "Name of the table in the store. `{base}` is `DYNAMODB_TABLE_NAME`, else the design's name. Default: `{base}-` \
             and the name of this section.";
        optional "description": Text, "What the table is for, for the generated documentation.";
        required "key": Pair, "The partition attribute and the sort attribute. Both hold strings.";
        optional "index": Named(&Pair), "Secondary indexes: name, then partition attribute and sort attribute.";
        optional "discriminator": Text, "The attribute that says which entity an item is, such as `type`.";
        optional "ttl": Text,
            "The attribute with the instant (seconds since 1970) after which an item is gone. On Cosmos DB it has to \
             be `ttl`, and the engine stores the seconds that are left.";
        optional "recovery": OneOf(&["point-in-time", "none"]),
            "Whether the table can be restored to a past instant. Default: `none`.";
        optional "encryption": OneOf(&["kms", "default"]),
            "Encryption at rest: a customer-managed key, or the store's. Default: `default`.";
        optional "stream": Boolean,
            "Whether changes are streamed. Default: `false`; an aggregate's event table has to say `true`.";
        optional "throughput": Either(&[OneOf(&["on-demand"]), ValueKind::Table(&THROUGHPUT)]),
            "Pay per request, or scale between two bounds. Default: `on-demand`.";
        optional "consistency": OneOf(&["strong", "bounded", "session", "prefix", "eventual"]),
            "Cosmos DB consistency level. Default: the account's.";
        optional "indexing": ValueKind::Table(&INDEXING), "Cosmos DB indexing policy.";
    }

    THROUGHPUT "a throughput" {
        required "min": Integer, "Lowest capacity per second (RU/s in Cosmos DB, units in DynamoDB).";
        required "max": Integer, "Highest capacity per second.";
    }

    INDEXING "an indexing policy" {
        optional "mode": OneOf(&["consistent", "none"]), "Indexing mode. Default: `consistent`.";
        optional "automatic": Boolean, "Whether documents are indexed automatically. Default: `true`.";
        optional "include": ListOf(&Text), "Paths to index, such as `/username/?`. Default: `/*`.";
        optional "exclude": ListOf(&Text), "Paths not to index, such as `/metadata/*`.";
    }

    ENTITY "an entity" {
        required "table": Text, "The table that holds it.";
        optional "description": Text, "What it is, for the generated documentation.";
        required "key": Named(&Text), "A template for each key attribute of the table.";
        optional "former_keys": ListOf(&Named(&Text)),
            "Key templates of older items: read and explained, never written.";
        optional "wall": OneOf(Wall::NAMES), "Where the wall between tenants is. Default: `key`.";
        optional "tenant": Either(&[Text, Boolean]),
            "The field that holds its tenant, where it is not the design's tenant field; `false`: it belongs to no \
             tenant and only an operator writes it.";
        optional "owner": Text,
            "The field with the user whose item it is: its default is `\"caller\"`, and it never changes. Permissions that \
             end with `:own` compare it with the caller.";
        optional "names": OneOf(&[FIRST_COME]),
            "`first-come`: callers choose ids or unique values that all tenants share. Whoever creates an item learns \
             whether another tenant has the name, and can take a name that others want.";
        optional "discriminator": Text, "Its value of the table's discriminator. Default: the entity's name.";
        optional "index": Named(&ValueKind::Table(&INDEX)),
            "Its templates for the indexes of its table. It is not in an index that is not named here.";
        optional "fields": Named(&ValueKind::Table(&FIELD)), "Its fields.";
        optional "version": Text, "The attribute with the optimistic version, counted by the store layer.";
        optional "unique": ListOf(&ValueKind::Table(&UNIQUE)), "Unique constraints.";
        optional "ttl_after": Text,
            "How long it lives after its last write, such as `90d`. Units: `s`, `m`, `h`, `d`, `w`.";
        optional "soft_delete": ValueKind::Table(&SOFT_DELETE), "Deleting marks the item and keeps it.";
        optional "schema": Text, "Schema version that is written, `major.minor`; stored as `schemaVersion`.";
        optional "change": ListOf(&ValueKind::Table(&CHANGE)), "Steps from one schema version to the next.";
        optional "path": Text, "Its HTTP path. Default: the entity's name, plural.";
        optional "routes": ListOf(&OneOf(Verb::NAMES)),
            "What callers do with single items over HTTP. Default: all four. Access patterns have their routes in any \
             case.";
        optional "audit": Boolean, "Whether its changes are recorded, if the design has an audit. Default: `true`.";
    }

    INDEX "an index mapping" {
        optional "wall": OneOf(Wall::NAMES), "The wall of this index, if it is narrower than the entity's.";
        optional "when": Text, "Keeps the item in the index only while this condition holds (a sparse index).";
        .. Text;
    }

    UNIQUE "a unique constraint" {
        required "fields": ListOf(&Text), "The fields that together have to be unique.";
        optional "within": OneOf(&["tenant", "all"]),
            "Unique among the items of one tenant, or among all. Default: `tenant`.";
        optional "when": Text, "Only items for which this holds count.";
    }

    SOFT_DELETE "a soft delete" {
        optional "field": Text, "The field that marks deleted items.";
        optional "value": Any, "What the field becomes on deletion.";
        optional "at": Text, "The timestamp field that takes the instant of deletion.";
        optional "by": Text, "The field that takes the user who deleted it.";
    }

    CHANGE "a schema step" {
        required "from": Text, "The version that it starts from.";
        required "to": Text, "The version that it leads to.";
        optional "add": Named(&Any), "Fields to add where they are missing, with their value.";
        optional "drop": ListOf(&Text), "Fields to remove. Needs a new major version.";
        optional "rename": Named(&Text), "Fields to rename, old name to new. Needs a new major version.";
        optional "set": Named(&Any),
            "Fields to overwrite; `\"{other}\"` copies another field. Needs a new major version.";
    }

    FIELD "a field" {
        required "type": OneOf(TYPES), "What it holds.";
        optional "description": Text, "What it means, for the generated documentation.";
        optional "optional": Boolean, "Whether it may be absent. Default: `false`.";
        optional "default": Any,
            "Its value where none is given. `\"new\"` makes an id (a ulid or uuid; for a string a ULID after its \
             prefix), `\"now\"` the present (timestamp, date), `\"caller\"` the user of the token, whom callers cannot \
             choose (string, ulid, uuid).";
        only_for(TEXTUAL) "format": OneOf(StringFormat::NAMES),
            "What kind of text it is. E-mail addresses are compared without case, and stored as they are given.";
        only_for(TEXTUAL) "schemes": ListOf(&Text),
            "The schemes of its addresses, if its format is `uri`. Default: `http` and `https`.";
        only_for(TEXTUAL) "pattern": Text, "Regular expression that the whole text has to match.";
        only_for(TEXTUAL) "one_of": ListOf(&Text), "The allowed values.";
        only_for(IDS) "prefix": Text, "What the text starts with, such as `user_`.";
        only_for(&["ulid", "uuid"]) "also": Text, "Regular expression of older values that are still accepted.";
        only_for(&["timestamp"]) "precision": OneOf(TimestampPrecision::NAMES),
            "Its stored form: `2026-01-01T00:00:00Z` (`seconds`, the default), with three or six decimals (`millis`, \
             `micros`), the number of seconds since 1970 (`epoch`), or whatever RFC 3339 allows (`any`).";
        only_for(COUNTED) "min": Any, "Least value; for text its least length, for lists the least count.";
        only_for(SIZED) "max": Any,
            "Greatest value; for text its length in characters (default 256), for lists the count (default 100), for \
             `map` and `any` the bytes as JSON (default 16384).";
        only_for(&["list"]) "items": ValueKind::Table(&FIELD), "What the list's elements are.";
        only_for(&["map"]) "fields": Named(&ValueKind::Table(&FIELD)),
            "The map's own fields; without them it holds anything.";
        optional "personal": Boolean,
            "Whether it is personal data: masked in logs and audit, erased on request. Default: `false`.";
        optional "immutable": Boolean,
            "Whether it keeps its first value. Fields in a table key always do. Default: `false`.";
        optional "readonly": Boolean,
            "Whether callers never give it: the system's own code sets it, or its default does. Default: `false`.";
        only_for(&["timestamp"]) "since": Text,
            "A condition: the field is set when the condition becomes true, and removed when it becomes false.";
        optional "secret": Boolean, "Whether it is written but never read back. Default: `false`.";
        optional "references": ValueKind::Table(&REFERENCE), "The entity whose id it holds.";
    }

    REFERENCE "a reference" {
        required "entity": Text, "The entity that it refers to.";
        optional "on_delete": OneOf(OnDelete::NAMES),
            "What deleting that entity does: fail while this one exists, or delete this one too. Default: `restrict`.";
    }

    ACCESS "an access pattern" {
        required "entity": Text, "The entity that it lists.";
        optional "description": Text, "What it is for, for the generated documentation.";
        optional "index": Text, "The index that serves it. Default: the table's key.";
        optional "by": ListOf(&Text),
            "The fields that the caller gives, apart from the tenant. Default: those of the partition.";
        optional "range": Text, "The field of the sort key that `from` (inclusive) and `to` (exclusive) bound.";
        optional "prefix": Text, "The field of the sort key whose beginning the caller gives, such as a month.";
        optional "order": OneOf(&["asc", "desc"]), "Order of the sort key. Default: `asc`.";
        optional "filter": Text, "Condition on what is returned; `{name}` is a parameter.";
        optional "projection": ListOf(&Text), "The fields to return. Default: all.";
        optional "limit": Integer, "Page size, 1 to 1000. Default: 100.";
        optional "returns": OneOf(ResultKind::NAMES),
            "A page of items, the first item, or how many there are. Default: `many`.";
        optional "path": Either(&[Text, Boolean]),
            "Its HTTP path, `{name}` for parameters; `false`: it has none, and only the system's own code uses it. \
             Default: its name, with `-` for `_`.";
    }

    AGGREGATE "an aggregate" {
        optional "description": Text, "What it is, for the generated documentation.";
        required "id": Text, "The field with the aggregate's id.";
        required "events": Text, "The entity that holds its events.";
        required "head": Text, "The entity with its current version, written under a condition with every event.";
        optional "idempotency": Text, "The entity that maps an idempotency key to its event.";
        optional "snapshot": Text, "The entity that keeps its state, so that not all events have to be read.";
        optional "keys": Text,
            "The entity with the keys (`subjectId`, `key`) that encrypt personal fields of events, one for each user: \
             destroying a key erases them.";
        optional "projections": ListOf(&Text), "The entities that are built from its events.";
        required "event": Named(&Named(&ValueKind::Table(&FIELD))), "Its events, each with the fields of its data.";
    }
}
