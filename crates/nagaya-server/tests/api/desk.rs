//! A small system with every kind of route.

use nagaya_server::System;

use nagaya_testing::{TestServer, parse_design};

pub(crate) const DESK: &str = r##"
name    = "desk"
version = "1.0"

[tenant]
field  = "tenantId"
system = "system"

[http]
prefix = "/v1"

[role.admin]
may = ["*"]

[role.viewer]
may = ["ticket.read", "team.read"]

[role.writer]
may = ["memo.create", "memo.read", "memo.update:own", "memo.delete:own", "diary.*:own"]

[role.operator]
operator = true

[audit]
entity = "trail"
action = "action"
actor  = "actor"
target = "target"

[table.main]
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]
ttl        = "expiresAt"

[entity.team]
table   = "main"
key     = { PK = "TENANT#{tenantId}", SK = "TEAM#{teamId}" }
version = "version"
unique  = [{ fields = ["name"] }]

[entity.team.fields]
tenantId = { type = "string", min = 1, max = 64 }
teamId   = { type = "string", min = 1, max = 64, default = "new" }
name     = { type = "string", min = 1, max = 100 }

[entity.ticket]
table      = "main"
key        = { PK = "TENANT#{tenantId}", SK = "TICKET#{ticketId}" }
version    = "version"
index.GSI1 = { GSI1PK = "TENANT#{tenantId}#STATUS#{status}", GSI1SK = "{openedAt}#{ticketId}" }

[entity.ticket.fields]
tenantId = { type = "string", min = 1, max = 64 }
ticketId = { type = "string", min = 1, max = 64, default = "new" }
teamId   = { type = "string", min = 1, max = 64, optional = true, references = { entity = "team" } }
subject  = { type = "string", min = 1, max = 200 }
status   = { type = "string", one_of = ["open", "closed"], default = "open" }
tags     = { type = "list", max = 5, items = { type = "string", max = 20 }, default = [] }
secret   = { type = "string", max = 100, optional = true, secret = true }
openedAt = { type = "timestamp", precision = "millis", default = "now", immutable = true }

# Has an author, whom the token names.
[entity.memo]
table   = "main"
key     = { PK = "TENANT#{tenantId}", SK = "MEMO#{memoId}" }
version = "version"
owner   = "createdBy"

[entity.memo.fields]
tenantId  = { type = "string", min = 1, max = 64 }
memoId    = { type = "string", min = 1, max = 64, default = "new" }
text      = { type = "string", max = 200, default = "" }
link      = { type = "string", format = "uri", max = 200, optional = true }
createdBy = { type = "string", max = 64, default = "caller", immutable = true }
updatedBy = { type = "string", max = 64, default = "caller" }

# Others do not see it.
[entity.diary]
table = "main"
key   = { PK = "TENANT#{tenantId}", SK = "DIARY#{userId}" }
owner = "userId"

[entity.diary.fields]
tenantId = { type = "string", min = 1, max = 64 }
userId   = { type = "string", min = 1, max = 64, default = "caller" }
text     = { type = "string", max = 200, default = "" }

# Without a version, with two fields in its key.
[entity.seat]
table = "main"
key   = { PK = "TENANT#{tenantId}", SK = "SEAT#{row}#{number:03}" }

[entity.seat.fields]
tenantId = { type = "string", min = 1, max = 64 }
row      = { type = "string", min = 1, max = 10 }
number   = { type = "integer", min = 1, max = 999 }
guest    = { type = "string", max = 100, optional = true }

# One for each tenant.
[entity.settings]
table   = "main"
key     = { PK = "TENANT#{tenantId}", SK = "SETTINGS#" }
version = "version"
path    = "/settings"

[entity.settings.fields]
tenantId = { type = "string", min = 1, max = 64 }
theme    = { type = "string", one_of = ["light", "dark"], default = "light" }

# The system's own.
[entity.region]
table = "main"
# NG0304: a handful.
key   = { PK = "SYSTEM", SK = "REGION#{regionId}" }
wall  = "system"

[entity.region.fields]
regionId = { type = "string", min = 1, max = 64 }
name     = { type = "string", min = 1, max = 100 }

# Read by all.
[entity.notice]
table  = "main"
# NG0304: a handful.
key    = { PK = "NOTICES", SK = "NOTICE#{noticeId}" }
wall   = "public"
tenant = false

[entity.notice.fields]
noticeId = { type = "string", min = 1, max = 64 }
text     = { type = "string", min = 1, max = 100 }

[entity.offer]
table   = "main"
# NG0304: a handful.
key     = { PK = "OFFERS", SK = "OFFER#{offerId}" }
wall    = "public"
names   = "first-come"
version = "version"

[entity.offer.fields]
tenantId = { type = "string", min = 1, max = 64 }
offerId  = { type = "string", min = 1, max = 64 }
price    = { type = "integer", min = 0, max = 1000000 }

[entity.trail]
table = "main"
key   = { PK = "TENANT#{tenantId}", SK = "TRAIL#{at}#{trailId}" }

[entity.trail.fields]
tenantId = { type = "string", min = 1, max = 64 }
at       = { type = "timestamp", precision = "millis", default = "now" }
trailId  = { type = "ulid", default = "new" }
action   = { type = "string", max = 100, immutable = true }
actor    = { type = "string", max = 64, immutable = true }
target   = { type = "string", max = 200, optional = true, immutable = true }

[access.teams]
entity = "team"

[access.tickets]
entity = "ticket"
order  = "desc"

[access.tickets_by_status]
entity = "ticket"
index  = "GSI1"

[access.tickets_by_status_between]
entity = "ticket"
index  = "GSI1"
range  = "openedAt"
path   = "/tickets/{status}/between"

[access.tickets_of_team]
entity = "ticket"
filter = "teamId = {teamId}"

[access.open_count]
entity  = "ticket"
index   = "GSI1"
returns = "count"

[access.memos]
entity = "memo"

[access.diaries]
entity = "diary"

[access.seats]
entity = "seat"

[access.seats_of_row]
entity = "seat"
by     = ["row"]

[access.regions]
entity = "region"

[access.notices]
entity = "notice"

[access.offers]
entity = "offer"

[access.trails]
entity = "trail"
"##;

/// A test server of the system.
pub(crate) fn desk() -> TestServer {
    TestServer::in_memory(System::plain(parse_design(DESK)))
}
