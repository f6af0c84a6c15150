//! Every diagnostic code. A code never changes its meaning and is never reused.

use crate::diagnostic::Severity;

/// A kind of problem.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// `NG` and four digits; the first two are the area.
    pub id: &'static str,
    /// Whether it is an error or a warning.
    pub severity: Severity,
    /// What it is about, in a few words.
    pub title: &'static str,
}

macro_rules! codes {
    ($($severity:ident $name:ident $id:literal $title:literal;)*) => {
        $(pub(crate) static $name: Code = Code { id: $id, severity: Severity::$severity, title: $title };)*

        /// All codes, in the order of their numbers.
        pub static ALL: &[&Code] = &[$(&$name),*];
    };
}

codes! {
    // Reading the file.
    Error   SYNTAX                "NG0001" "the file is not TOML";
    Error   UNKNOWN_KEY           "NG0002" "a key that the language does not have";
    Error   MISSING_KEY           "NG0003" "a required key is missing";
    Error   WRONG_TYPE            "NG0004" "a value of the wrong type";
    Error   NOT_A_CHOICE          "NG0005" "a value that is not one of the choices";
    Error   BAD_NAME              "NG0006" "a name that cannot be used";
    Error   UNKNOWN_NAME          "NG0007" "a name that refers to nothing";
    Error   BAD_VERSION           "NG0008" "a version that is not major.minor";
    Error   BAD_DURATION          "NG0009" "a duration that cannot be read";
    Error   DOES_NOT_APPLY        "NG0010" "a key that does not apply here";

    Warning STALE_EXPLANATION     "NG0011" "a comment for a warning that does not occur";

    // Walls.
    Error   NO_WALL               "NG0101" "an entity without a wall";
    Error   WALL_NOT_IN_KEY       "NG0102" "the tenant is not in the partition key";
    Error   WALL_NOT_IN_INDEX     "NG0103" "the tenant is not in an index partition";
    Error   NO_TENANT_FIELD       "NG0104" "the tenant field is missing or unsuitable";
    Warning ATTRIBUTE_WALL        "NG0105" "a wall that no IAM leading-key policy covers";
    Warning EXPOSED_PERSONAL_DATA "NG0106" "personal data behind a public or system wall";
    Error   NO_OWNER              "NG0107" "a public entity without an owner";
    Error   WIDER_INDEX_WALL      "NG0108" "an index with a wider wall than its entity";
    Error   SECRET_IN_KEY         "NG0109" "a secret in a key";
    Warning PERSONAL_IN_KEY       "NG0110" "personal data in a key";

    Error   SHARED_PARTITION      "NG0111" "two tenants that can share a partition";
    Error   SHARED_NAMES          "NG0112" "names that callers choose and all tenants share";

    // Templates and keys.
    Error   TEMPLATE_SYNTAX       "NG0201" "a template that cannot be read";
    Error   UNKNOWN_FIELD         "NG0202" "a field that the entity does not have";
    Error   OPTIONAL_IN_KEY       "NG0203" "an optional field in a key";
    Error   NOT_A_KEY_TYPE        "NG0204" "a type that cannot be part of a key";
    Error   TOUCHING_FIELDS       "NG0205" "two fields without a separator in a template";
    Error   UNPADDED_NUMBER       "NG0206" "a number whose text order is not its order";
    Error   NUMBER_DOES_NOT_FIT   "NG0207" "a number that may be too long for its padding";
    Error   FREE_TIMESTAMP        "NG0208" "a timestamp without a fixed form in a key";
    Error   KEY_ATTRIBUTES        "NG0209" "a key that does not match its attributes";
    Error   ATTRIBUTE_IS_FIELD    "NG0210" "a key or index attribute that is also a field";
    Error   MANAGED_ATTRIBUTE     "NG0211" "a field that the design itself manages";

    // Conflicts between entities.
    Error   KEY_COLLISION         "NG0301" "two entities whose keys can be equal";
    Error   SHADOWED_QUERY        "NG0302" "a query that also reads another entity";
    Error   UNDECLARED_INDEX      "NG0303" "an entity in an index that it does not declare";
    Warning HOT_PARTITION         "NG0304" "a partition that is the same for all items";
    Error   TOO_COMPLEX           "NG0305" "keys that take too long to compare";

    // Access patterns and conditions.
    Error   NOT_SERVED            "NG0401" "an access pattern that no key or index serves";
    Error   RANGE_NOT_NEXT        "NG0402" "a range that the sort key does not support";
    Error   RANGE_WITHOUT_ORDER   "NG0403" "a range over values without an order";
    Error   CONDITION_SYNTAX      "NG0404" "a condition that cannot be read";
    Error   CONDITION_FIELD       "NG0405" "a condition on a field that does not exist";
    Error   CONDITION_VALUE       "NG0406" "a condition with a value that its field cannot have";
    Error   BAD_SELECTION         "NG0407" "an invalid projection, limit or parameter";
    Error   COMPARED_ADDRESS      "NG0408" "a condition that compares e-mail addresses";
    Error   READS_ALL_TENANTS     "NG0409" "a count or a search among the items of all tenants";
    Warning MOVING_ITEMS          "NG0410" "a list whose items can move while it is read";

    // Fields.
    Error   BAD_DEFAULT           "NG0501" "a default that does not fit its field";
    Error   EMPTY_RANGE           "NG0502" "a range that contains no value";
    Error   BAD_PATTERN           "NG0503" "a pattern that cannot be read";
    Error   BAD_CHOICES           "NG0504" "choices that are empty, repeated or of the wrong type";
    Error   NEVER_SET             "NG0505" "a required field that cannot be set";
    Error   BAD_SINCE             "NG0506" "a `since` time that cannot follow its condition";
    Warning WRITABLE_VERDICT      "NG0507" "a field by which callers could grant themselves something";

    // Constraints of entities.
    Error   UNIQUE_NOT_KEPT       "NG0601" "a unique constraint that cannot be enforced";
    Warning UNIQUE_OUTLIVES       "NG0602" "a unique value that stays taken after its item has expired";
    Error   BAD_REFERENCE         "NG0603" "an invalid reference";
    Error   REFERENCE_NOT_FOUND   "NG0604" "a reference that no access pattern finds from its target";
    Error   BAD_SOFT_DELETE       "NG0605" "a soft delete that its fields cannot express";
    Error   BAD_TTL               "NG0606" "an expiry that the table cannot keep";
    Error   BAD_AUDIT             "NG0607" "an audit that its entity cannot hold";
    Error   HIDDEN_REFERENCE      "NG0608" "a reference to items that its writer cannot see";
    Error   BAD_OWNER             "NG0609" "an owner that the token does not set";
    Error   BAD_ARCHIVE           "NG0610" "an archive that cannot take the audit entries";

    // Schema versions.
    Error   SCHEMA_GAP            "NG0701" "a gap in a schema-version chain";
    Error   SCHEMA_BUMP           "NG0702" "a breaking step without a new major version";
    Error   SCHEMA_STEP           "NG0703" "a schema step that does not fit its fields";

    // Limits of the stores.
    Error   TOO_MANY_INDEXES      "NG0801" "more indexes than a table can have";
    Error   ITEM_TOO_LARGE        "NG0802" "an item that can exceed 400 KB";
    Error   KEY_TOO_LONG          "NG0803" "a key that can grow too long";
    Error   TABLE_NAME            "NG0804" "a table name that the stores do not accept";

    // Limits of one engine.
    Warning COSMOS_CROSS_QUERY    "NG0901" "Cosmos DB: a query over all partitions";
    Error   COSMOS_ID             "NG0902" "Cosmos DB: a character that an id cannot have";
    Warning COSMOS_BATCH          "NG0903" "Cosmos DB: a write set that spans partitions";
    Warning COSMOS_NUMBER         "NG0904" "Cosmos DB: an integer beyond 2^53";
    Warning COSMOS_CHANGES        "NG0905" "Cosmos DB: changes without old images";
    Warning SETTING_IGNORED       "NG0906" "a setting that the engine ignores";

    Error   COSMOS_TTL            "NG0907" "Cosmos DB: an expiry that is not called ttl";
    Error   DYNAMODB_FILTER       "NG0908" "DynamoDB: a filter on an attribute of the key";

    // HTTP and aggregates.
    Error   SAME_ROUTE            "NG1001" "two routes with the same HTTP path";
    Error   BAD_PATH              "NG1002" "an invalid HTTP path";
    Error   BAD_AGGREGATE         "NG1003" "an aggregate whose entities cannot hold it";
    Error   RESERVED_PATH         "NG1004" "an HTTP path that the server uses itself";
    Error   HIDDEN_ITEM           "NG1005" "an HTTP path that hides items";

    // Roles.
    Error   BAD_PERMISSION        "NG1101" "an invalid permission";
    Error   EMPTY_ROLE            "NG1102" "a role that permits nothing";
    Error   SHARED_OPERATOR_CLAIM "NG1103" "operators without a claim of their own";
}
