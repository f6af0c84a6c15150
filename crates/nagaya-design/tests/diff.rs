//! What changed between two designs: a change of every key of the language is seen and judged.

use std::collections::BTreeSet;

use nagaya_design::{Design, allows_breaking, check, diff, json_schema};

/// A design that uses every key of the language.
const BASE: &str = r##"
name        = "desk"
version     = "1.0"
description = "A help desk."
database    = "desk-db"

[tenant]
field  = "tenantId"
claim  = "custom:desk"
system = "_system"
roles  = "groups"
member_of = "memberOf"

[role.admin]
description = "Runs the desk."
may         = ["*"]

[role.helper]
may = ["ticket.read", "ticket.update", "agent.*", "*.read"]

[role.staff]
operator = true

[http]
prefix = "/v1"

[audit]
entity  = "trail"
action  = "action"
actor   = "who"
target  = "what"
at      = "at"
changes = "changes"
request = "request"
address = "address"
reason  = "reason"

[table.app]
name          = "{base}-app"
description   = "Tickets, and who works on them."
key           = ["PK", "SK"]
index.GSI1    = ["GSI1PK", "GSI1SK"]
index.GSI2    = ["GSI2PK", "GSI2SK"]
discriminator = "kind"
ttl           = "expiresAt"
recovery      = "point-in-time"
encryption    = "kms"
stream        = true
throughput    = { min = 5, max = 50 }
consistency   = "session"

[table.app.indexing]
mode      = "consistent"
automatic = true
include   = ["/subject/?"]
exclude   = ["/notes/*"]

[table.shelf]
key    = ["PK", "SK"]
stream = true

[table.spare]
key = ["PK", "SK"]

[entity.notice]
table  = "shelf"
tenant = "tenantId"
wall   = "public"
key    = { PK = "NOTICE#{noticeId}", SK = "NOTICE#{noticeId}" }
routes = ["read", "update"]

[entity.notice.fields]
tenantId = { type = "ulid" }
noticeId = { type = "ulid", default = "new" }

[entity.trail]
table  = "shelf"
tenant = "tenantId"
key    = { PK = "TENANT#{tenantId}", SK = "TRAIL#{trailId}" }

[entity.trail.fields]
tenantId = { type = "ulid" }
trailId  = { type = "ulid", default = "new" }
action   = { type = "string", max = 100 }
act      = { type = "string", max = 100, default = "" }
who      = { type = "string", max = 64 }
whom     = { type = "string", max = 64, default = "" }
what     = { type = "string", max = 200, optional = true }
whatever = { type = "string", max = 200, optional = true }
at       = { type = "timestamp", default = "now" }
when     = { type = "timestamp", default = "now" }
changes  = { type = "map", max = 4096, optional = true }
edits    = { type = "map", max = 4096, optional = true }
request  = { type = "string", max = 64, optional = true }
address  = { type = "string", max = 64, optional = true }
reason   = { type = "string", max = 64, optional = true }
because  = { type = "string", max = 64, optional = true }

[entity.agent]
table  = "app"
tenant = "tenantId"
key    = { PK = "TENANT#{tenantId}", SK = "AGENT#{agentId}" }
index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "AGENT#{agentId}" }

[entity.agent.fields]
tenantId = { type = "ulid" }
agentId  = { type = "ulid", default = "new" }
away     = { type = "boolean", default = false }

[entity.team]
table  = "app"
tenant = "tenantId"
key    = { PK = "TENANT#{tenantId}", SK = "TEAM#{teamId}" }

[entity.team.fields]
tenantId = { type = "ulid" }
teamId   = { type = "ulid", default = "new" }

[entity.ticket]
table         = "app"
description   = "What somebody asks."
key           = { PK = "TENANT#{tenantId}", SK = "TICKET#{ticketId}" }
former_keys   = [{ PK = "TENANT#{tenantId}", SK = "CASE#{number:08}" }]
tenant        = "tenantId"
discriminator = "ticket"
version       = "revision"
unique        = [{ fields = ["reference"], within = "tenant", when = "status = 'open'" }]
ttl_after     = "90d"
soft_delete   = { field = "status", value = "gone", at = "goneAt", by = "goneBy" }
schema        = "2.0"
path          = "/cases"

[entity.ticket.index.GSI1]
GSI1PK = "TENANT#{tenantId}#{agentId}"
GSI1SK = "{createdAt}#{ticketId}"
wall   = "key"
when   = "exists agentId"

[[entity.ticket.change]]
from = "1.0"
to   = "1.1"
add  = { colour = "red" }

[[entity.ticket.change]]
from   = "1.1"
to     = "2.0"
drop   = ["shade"]
rename = { title = "subject" }
set    = { urgency = 3 }

[entity.ticket.fields]
tenantId  = { type = "ulid" }
ownerId   = { type = "ulid" }
ticketId  = { type = "ulid", default = "new" }
createdAt = { type = "timestamp", default = "now" }
number    = { type = "integer", min = 0, max = 99999999, optional = true }
status    = { type = "string", one_of = ["open", "closed", "gone", "erased"], default = "open" }
state     = { type = "string", one_of = ["alive", "gone"], default = "alive" }
goneAt    = { type = "timestamp", optional = true }
goneBy    = { type = "string", max = 64, optional = true }
leftAt    = { type = "timestamp", optional = true }
leftBy    = { type = "string", max = 64, optional = true }
reference = { type = "string", max = 40 }
label     = { type = "string", max = 40 }
subject   = { type = "string", max = 200, description = "In a few words." }
urgency   = { type = "integer", min = 1, max = 9 }
mail      = { type = "string", max = 100, format = "email" }
code      = { type = "string", max = 20, pattern = "[A-Z]{3}" }
colour    = { type = "string", one_of = ["red", "green"] }
source    = { type = "uuid", prefix = "src_", also = "source_[0-9]{1,8}" }
dueAt     = { type = "timestamp", precision = "millis" }
weight    = { type = "number", min = 0, max = 100 }
tags      = { type = "list", min = 1, max = 10, items = { type = "string", max = 30 } }
asker     = { type = "map", fields = { place = { type = "string", max = 50 } } }
notes     = { type = "any", max = 2000 }
phone     = { type = "string", max = 30, personal = true }
origin    = { type = "string", max = 30, immutable = true }
pin       = { type = "string", max = 30, secret = true }
hint      = { type = "string", max = 30, optional = true }
rank      = { type = "integer", min = 0, max = 9, default = 0, readonly = true }
closedAt  = { type = "timestamp", optional = true, since = "status = 'closed'" }

[entity.ticket.fields.agentId]
type       = "ulid"
optional   = true
references = { entity = "agent", on_delete = "restrict" }

[entity.event]
table  = "app"
tenant = "tenantId"
key    = { PK = "TENANT#{tenantId}#DESK#{deskId}", SK = "EVENT#{eventId}" }

[entity.event.fields]
tenantId         = { type = "ulid" }
deskId           = { type = "ulid" }
roomId           = { type = "ulid" }
eventId          = { type = "ulid" }
eventType        = { type = "string", max = 30 }
aggregateVersion = { type = "integer", min = 1, max = 999999 }
lastEventId      = { type = "ulid" }
data             = { type = "map", max = 2000 }

[entity.head]
table  = "app"
tenant = "tenantId"
key    = { PK = "TENANT#{tenantId}#DESK#{deskId}", SK = "HEAD#{eventId}" }

[entity.head.fields]
tenantId         = { type = "ulid" }
deskId           = { type = "ulid" }
roomId           = { type = "ulid" }
eventId          = { type = "ulid" }
eventType        = { type = "string", max = 30 }
aggregateVersion = { type = "integer", min = 1, max = 999999 }
lastEventId      = { type = "ulid" }
data             = { type = "map", max = 2000 }

[entity.request]
table     = "app"
tenant    = "tenantId"
key       = { PK = "TENANT#{tenantId}", SK = "REQUEST#{idempotencyKey}" }
ttl_after = "24h"

[entity.request.fields]
tenantId       = { type = "ulid" }
deskId         = { type = "ulid" }
roomId         = { type = "ulid" }
idempotencyKey = { type = "string", min = 1, max = 64 }
eventId        = { type = "ulid" }
requestHash    = { type = "string", max = 80 }

[entity.state]
table  = "app"
tenant = "tenantId"
key    = { PK = "TENANT#{tenantId}#DESK#{deskId}", SK = "STATE#" }

[entity.state.fields]
tenantId         = { type = "ulid" }
deskId           = { type = "ulid" }
roomId           = { type = "ulid" }
aggregateVersion = { type = "integer", min = 1, max = 999999 }
lastEventId      = { type = "ulid" }
state            = { type = "map", max = 2000 }

[entity.seal]
table  = "app"
tenant = "tenantId"
key    = { PK = "TENANT#{tenantId}", SK = "SEAL#{subjectId}" }

[entity.seal.fields]
tenantId  = { type = "ulid" }
subjectId = { type = "string", min = 1, max = 64 }
key       = { type = "string", max = 64, secret = true }

[entity.picture]
table  = "app"
tenant = "tenantId"
key    = { PK = "TENANT#{tenantId}#DESK#{deskId}", SK = "PICTURE#" }

[entity.picture.fields]
tenantId         = { type = "ulid" }
deskId           = { type = "ulid" }
aggregateVersion = { type = "integer", min = 1, max = 999999 }
lastEventId      = { type = "ulid" }
state            = { type = "map", max = 2000 }

[access.tickets_of_agent]
entity      = "ticket"
description = "What an agent works on."
index       = "GSI1"
by          = ["agentId"]
order       = "asc"
projection  = ["ticketId", "subject"]
limit       = 50
path        = "/agents/{agentId}/cases"

[access.tickets_of_agent_between]
entity = "ticket"
index  = "GSI1"
by     = ["agentId"]
range  = "createdAt"

[access.tickets]
entity  = "ticket"
filter  = "urgency = {urgency}"
returns = "many"

[access.tickets_beginning_with]
entity = "ticket"
prefix = "ticketId"
path   = false

[access.agents]
entity = "agent"

[aggregate.desk]
description = "One desk."
id          = "deskId"
events      = "event"
head        = "head"
idempotency = "request"
snapshot    = "state"
keys        = "seal"
projections = ["agent"]

[aggregate.desk.event]
DeskOpened = { place = { type = "string", max = 50 } }
DeskClosed = {}
"##;

/// The documented rules: 12.1.2 of the management system's document.
const DOCUMENTED: &str = r##"
breaks field.type at entity.ticket.fields.hint
-hint      = { type = "string", max = 30, optional = true }

breaks field.type at entity.ticket.fields.clue
-hint      = { type = "string", max = 30, optional = true }
+clue      = { type = "string", max = 30, optional = true }

breaks field.type at entity.ticket.fields.label
-label     = { type = "string", max = 40 }
+label     = { type = "number" }

breaks field.optional at entity.ticket.fields.hint
-hint      = { type = "string", max = 30, optional = true }
+hint      = { type = "string", max = 30 }

breaks field.type at entity.ticket.fields.added
 label     = { type = "string", max = 40 }
+added     = { type = "ulid" }

breaks field.one_of at entity.ticket.fields.colour
-colour    = { type = "string", one_of = ["red", "green"] }
+colour    = { type = "string", one_of = ["red"] }

breaks entity.key at entity.ticket.key
-key           = { PK = "TENANT#{tenantId}", SK = "TICKET#{ticketId}" }
+key           = { PK = "TENANT#{tenantId}#TICKET", SK = "TICKET#{ticketId}" }

breaks entity.key at entity.ticket.key
-key           = { PK = "TENANT#{tenantId}", SK = "TICKET#{ticketId}" }
+key           = { PK = "TENANT#{tenantId}", SK = "T#{ticketId}" }

breaks entity.index at entity.ticket.index.GSI1
-GSI1PK = "TENANT#{tenantId}#{agentId}"
+GSI1PK = "TENANT#{tenantId}#AGENT#{agentId}"

breaks entity.index at entity.ticket.index.GSI1
-GSI1SK = "{createdAt}#{ticketId}"
+GSI1SK = "{createdAt}"

keeps field.optional at entity.ticket.fields.added
 label     = { type = "string", max = 40 }
+added     = { type = "ulid", optional = true }

keeps field.default at entity.ticket.fields.added
 label     = { type = "string", max = 40 }
+added     = { type = "ulid", default = "new" }

keeps field.optional at entity.ticket.fields.label
-label     = { type = "string", max = 40 }
+label     = { type = "string", max = 40, optional = true }

keeps field.default at entity.ticket.fields.label
-label     = { type = "string", max = 40 }
+label     = { type = "string", max = 40, default = "none" }

keeps field.one_of at entity.ticket.fields.colour
-colour    = { type = "string", one_of = ["red", "green"] }
+colour    = { type = "string", one_of = ["red", "green", "blue"] }

keeps table.index at table.app.index.GSI3
 index.GSI2    = ["GSI2PK", "GSI2SK"]
+index.GSI3    = ["GSI3PK", "GSI3SK"]

keeps entity.index at entity.team.index.GSI2
 key    = { PK = "TENANT#{tenantId}", SK = "TEAM#{teamId}" }
+index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "TEAM#{teamId}" }

keeps design.access at access.teams
 [access.agents]
 entity = "agent"
+[access.teams]
+entity = "team"
"##;

/// Changes of all the other keys.
const OTHERS: &str = r##"
breaks design.name at name
-name        = "desk"
+name        = "help"

keeps design.description at description
-description = "A help desk."
+description = "The help desk."

breaks design.database at database
-database    = "desk-db"
+database    = "help-db"

breaks design.http at http
-[http]
-prefix = "/v1"

breaks design.table at table.spare
-[table.spare]
-key = ["PK", "SK"]

keeps design.table at table.attic
 [table.spare]
 key = ["PK", "SK"]
+[table.attic]
+key = ["PK", "SK"]

breaks design.entity at entity.team
-[entity.team]
+[entity.crew]
..
-[entity.team.fields]
+[entity.crew.fields]

keeps design.entity at entity.room
 [access.agents]
 entity = "agent"
+[entity.room]
+table  = "spare"
+tenant = "tenantId"
+key    = { PK = "TENANT#{tenantId}", SK = "ROOM" }
+fields.tenantId = { type = "ulid" }

breaks design.access at access.agents
-[access.agents]
-entity = "agent"

breaks design.aggregate at aggregate.desk
-[aggregate.desk]
+[aggregate.table]
..
-[aggregate.desk.event]
+[aggregate.table.event]

breaks design.tenant at tenant
-field  = "tenantId"
+field  = "ownerId"

breaks tenant.field at tenant
-field  = "tenantId"
+field  = "ownerId"

breaks tenant.claim at tenant
-claim  = "custom:desk"

breaks tenant.system at tenant
-system = "_system"
+system = "_house"

breaks tenant.roles at tenant
-roles  = "groups"

breaks tenant.member_of at tenant
-member_of = "memberOf"
+member_of = "desks"

breaks tenant.member_of at tenant
-member_of = "memberOf"

breaks design.role at role.helper
-[role.helper]
-may = ["ticket.read", "ticket.update", "agent.*", "*.read"]

keeps design.role at role.guest
 [role.staff]
 operator = true
+[role.guest]
+may = ["notice.read"]

keeps role.description at role.admin
-description = "Runs the desk."

breaks role.may at role.helper
-may = ["ticket.read", "ticket.update", "agent.*", "*.read"]
+may = ["ticket.read", "agent.*", "*.read"]

breaks role.may at role.helper
-may = ["ticket.read", "ticket.update", "agent.*", "*.read"]
+may = ["ticket.read", "ticket.update", "agent.update", "*.read"]

breaks role.may at role.admin
-may         = ["*"]
+may         = ["*.read", "*.create", "*.update"]

keeps role.may at role.admin
-may         = ["*"]
+may         = ["*.read", "*.create", "*.update", "*.delete"]

keeps role.may at role.helper
-may = ["ticket.read", "ticket.update", "agent.*", "*.read"]
+may = ["ticket.update", "agent.*", "*.read", "team.create"]

keeps role.may at role.helper
-may = ["ticket.read", "ticket.update", "agent.*", "*.read"]
+may = ["*"]

breaks role.may at role.staff
-operator = true
+operator = true
+may      = ["*.read"]

breaks role.operator at role.staff
-operator = true
+may      = ["*"]

keeps role.operator at role.admin
-may         = ["*"]
+may         = ["*"]
+operator    = true

breaks design.audit at audit
-[audit]
-entity  = "trail"
-action  = "action"
-actor   = "who"
-target  = "what"
-at      = "at"
-changes = "changes"
-request = "request"
-address = "address"
-reason  = "reason"

breaks audit.entity at audit
-entity  = "trail"
+entity  = "track"
..
-[entity.trail]
+[entity.track]
..
-[entity.trail.fields]
+[entity.track.fields]

breaks audit.action at audit
-action  = "action"
+action  = "act"
..
-action   = { type = "string", max = 100 }
+action   = { type = "string", max = 100, default = "" }

breaks audit.actor at audit
-actor   = "who"
+actor   = "whom"
..
-who      = { type = "string", max = 64 }
+who      = { type = "string", max = 64, default = "" }

breaks audit.target at audit
-target  = "what"
+target  = "whatever"

breaks audit.at at audit
-at      = "at"
+at      = "when"

breaks audit.changes at audit
-changes = "changes"
+changes = "edits"

breaks audit.request at audit
-request = "request"
+request = "because"

breaks audit.address at audit
-address = "address"

breaks audit.reason at audit
-reason  = "reason"
+reason  = "because"

breaks entity.audit at entity.team
 key    = { PK = "TENANT#{tenantId}", SK = "TEAM#{teamId}" }
+audit  = false

breaks section.prefix at http
-prefix = "/v1"
+prefix = "/v2"

keeps section.visitors at http
-prefix = "/v1"
+prefix = "/v1"
+visitors = true

breaks entity.routes at entity.team
 key    = { PK = "TENANT#{tenantId}", SK = "TEAM#{teamId}" }
+routes = ["create", "read"]

breaks entity.routes at entity.notice
-routes = ["read", "update"]
+routes = ["read", "delete"]

keeps entity.routes at entity.notice
-routes = ["read", "update"]

breaks table.name at table.app
-name          = "{base}-app"
+name          = "{base}-main"

keeps table.description at table.app
-description   = "Tickets, and who works on them."

breaks table.key at table.spare
-key = ["PK", "SK"]
+key = ["PK", "RK"]

breaks table.index at table.app.index.GSI2
-index.GSI2    = ["GSI2PK", "GSI2SK"]
+index.GSI2    = ["GSI2PK", "GSI2RK"]
..
-index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "AGENT#{agentId}" }
+index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2RK = "AGENT#{agentId}" }

breaks table.index at table.app.index.GSI2
-index.GSI2    = ["GSI2PK", "GSI2SK"]
..
-index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "AGENT#{agentId}" }

breaks table.discriminator at table.app
-discriminator = "kind"
+discriminator = "type"

breaks table.ttl at table.app
-ttl           = "expiresAt"
+ttl           = "ttl"

breaks table.recovery at table.app
-recovery      = "point-in-time"

keeps table.recovery at table.shelf
-stream = true
+stream = true
+recovery = "point-in-time"

keeps table.encryption at table.app
-encryption    = "kms"
+encryption    = "default"

breaks table.stream at table.shelf
-stream = true
+stream = false

keeps table.throughput at table.app
-throughput    = { min = 5, max = 50 }
+throughput    = "on-demand"

breaks table.consistency at table.app
-consistency   = "session"
+consistency   = "eventual"

keeps table.consistency at table.app
-consistency   = "session"
+consistency   = "strong"

keeps table.indexing at table.app
-[table.app.indexing]
-mode      = "consistent"
-automatic = true
-include   = ["/subject/?"]
-exclude   = ["/notes/*"]

keeps throughput.min at table.app
-throughput    = { min = 5, max = 50 }
+throughput    = { min = 1, max = 50 }

keeps throughput.max at table.app
-throughput    = { min = 5, max = 50 }
+throughput    = { min = 5, max = 99 }

keeps policy.mode at table.app
-mode      = "consistent"
+mode      = "none"

keeps policy.automatic at table.app
-automatic = true
+automatic = false

keeps policy.include at table.app
-include   = ["/subject/?"]

keeps policy.exclude at table.app
-exclude   = ["/notes/*"]

breaks entity.table at entity.team
 [entity.team]
-table  = "app"
+table  = "spare"

keeps entity.description at entity.ticket
-description   = "What somebody asks."

breaks entity.former_keys at entity.ticket
-former_keys   = [{ PK = "TENANT#{tenantId}", SK = "CASE#{number:08}" }]

keeps entity.former_keys at entity.team
 key    = { PK = "TENANT#{tenantId}", SK = "TEAM#{teamId}" }
+former_keys = [{ PK = "TENANT#{tenantId}", SK = "CREW#{teamId}" }]

breaks entity.wall at entity.notice
-wall   = "public"
+wall   = "system"

breaks entity.tenant at entity.ticket
-tenant        = "tenantId"
+tenant        = "ownerId"
..
-key           = { PK = "TENANT#{tenantId}", SK = "TICKET#{ticketId}" }
+key           = { PK = "TENANT#{ownerId}", SK = "TICKET#{ticketId}" }
..
-former_keys   = [{ PK = "TENANT#{tenantId}", SK = "CASE#{number:08}" }]
+former_keys   = [{ PK = "TENANT#{ownerId}", SK = "CASE#{number:08}" }]
..
-GSI1PK = "TENANT#{tenantId}#{agentId}"
+GSI1PK = "TENANT#{ownerId}#{agentId}"

breaks entity.discriminator at entity.ticket
-discriminator = "ticket"
+discriminator = "case"

breaks entity.index at entity.agent.index.GSI2
-index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "AGENT#{agentId}" }

breaks entity.fields at entity.ticket.fields.origin
-origin    = { type = "string", max = 30, immutable = true }

breaks entity.version at entity.ticket
-version       = "revision"
+version       = "counter"

keeps entity.version at entity.team
 key    = { PK = "TENANT#{tenantId}", SK = "TEAM#{teamId}" }
+version = "revision"

breaks entity.unique at entity.ticket.unique
-unique        = [{ fields = ["reference"], within = "tenant", when = "status = 'open'" }]
+unique        = [{ fields = ["reference"], within = "tenant", when = "status = 'open'" }, { fields = ["label"] }]

keeps entity.unique at entity.ticket.unique
-unique        = [{ fields = ["reference"], within = "tenant", when = "status = 'open'" }]

breaks entity.ttl_after at entity.ticket
-ttl_after     = "90d"
+ttl_after     = "30d"

keeps entity.ttl_after at entity.ticket
-ttl_after     = "90d"

breaks entity.soft_delete at entity.ticket
-soft_delete   = { field = "status", value = "gone", at = "goneAt", by = "goneBy" }

keeps entity.schema at entity.team
 key    = { PK = "TENANT#{tenantId}", SK = "TEAM#{teamId}" }
+schema = "1.0"

keeps entity.change at entity.ticket
-schema        = "2.0"
+schema        = "3.0"
..
 set    = { urgency = 3 }
+[[entity.ticket.change]]
+from = "2.0"
+to   = "3.0"

breaks entity.change at entity.ticket
-[[entity.ticket.change]]
-from = "1.0"
-to   = "1.1"
-add  = { colour = "red" }

breaks entity.path at entity.ticket
-path          = "/cases"

breaks mapping.wall at entity.agent.index.GSI2
-index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "AGENT#{agentId}" }
+index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "AGENT#{agentId}", wall = "system" }

breaks mapping.when at entity.agent.index.GSI2
-index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "AGENT#{agentId}" }
+index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "AGENT#{agentId}", when = "away = false" }

breaks constraint.fields at entity.ticket.unique
-unique        = [{ fields = ["reference"], within = "tenant", when = "status = 'open'" }]
+unique        = [{ fields = ["label"], within = "tenant", when = "status = 'open'" }]

breaks constraint.within at entity.ticket.unique
-unique        = [{ fields = ["reference"], within = "tenant", when = "status = 'open'" }]
+unique        = [{ fields = ["reference"], within = "all", when = "status = 'open'" }]

breaks constraint.when at entity.ticket.unique
-unique        = [{ fields = ["reference"], within = "tenant", when = "status = 'open'" }]
+unique        = [{ fields = ["reference"], within = "tenant" }]

breaks delete.field at entity.ticket
-soft_delete   = { field = "status", value = "gone", at = "goneAt", by = "goneBy" }
+soft_delete   = { field = "state", value = "gone", at = "goneAt", by = "goneBy" }

breaks delete.value at entity.ticket
-soft_delete   = { field = "status", value = "gone", at = "goneAt", by = "goneBy" }
+soft_delete   = { field = "status", value = "erased", at = "goneAt", by = "goneBy" }

breaks delete.at at entity.ticket
-soft_delete   = { field = "status", value = "gone", at = "goneAt", by = "goneBy" }
+soft_delete   = { field = "status", value = "gone", at = "leftAt", by = "goneBy" }

breaks delete.by at entity.ticket
-soft_delete   = { field = "status", value = "gone", at = "goneAt", by = "goneBy" }
+soft_delete   = { field = "status", value = "gone", at = "goneAt", by = "leftBy" }

breaks step.from at entity.ticket
-from = "1.0"
+from = "0.9"

breaks step.to at entity.ticket
-to   = "1.1"
+to   = "1.2"
..
-from   = "1.1"
+from   = "1.2"

breaks step.add at entity.ticket
-add  = { colour = "red" }
+add  = { colour = "green" }

breaks step.drop at entity.ticket
-drop   = ["shade"]
+drop   = ["tint"]

breaks step.rename at entity.ticket
-rename = { title = "subject" }
+rename = { topic = "subject" }

breaks step.set at entity.ticket
-set    = { urgency = 3 }
+set    = { urgency = 4 }

keeps field.description at entity.ticket.fields.subject
-subject   = { type = "string", max = 200, description = "In a few words." }
+subject   = { type = "string", max = 200 }

breaks field.default at entity.ticket.fields.state
-state     = { type = "string", one_of = ["alive", "gone"], default = "alive" }
+state     = { type = "string", one_of = ["alive", "gone"] }

breaks field.format at entity.ticket.fields.mail
-mail      = { type = "string", max = 100, format = "email" }
+mail      = { type = "string", max = 100, format = "hostname" }

keeps field.format at entity.ticket.fields.mail
-mail      = { type = "string", max = 100, format = "email" }
+mail      = { type = "string", max = 100 }

breaks field.pattern at entity.ticket.fields.code
-code      = { type = "string", max = 20, pattern = "[A-Z]{3}" }
+code      = { type = "string", max = 20, pattern = "[A-Z]{2}" }

keeps field.pattern at entity.ticket.fields.code
-code      = { type = "string", max = 20, pattern = "[A-Z]{3}" }
+code      = { type = "string", max = 20 }

breaks field.one_of at entity.ticket.fields.label
-label     = { type = "string", max = 40 }
+label     = { type = "string", max = 40, one_of = ["a", "b"] }

keeps field.one_of at entity.ticket.fields.colour
-colour    = { type = "string", one_of = ["red", "green"] }
+colour    = { type = "string" }

breaks field.prefix at entity.ticket.fields.source
-source    = { type = "uuid", prefix = "src_", also = "source_[0-9]{1,8}" }
+source    = { type = "uuid", prefix = "from_", also = "source_[0-9]{1,8}" }

breaks field.also at entity.ticket.fields.source
-source    = { type = "uuid", prefix = "src_", also = "source_[0-9]{1,8}" }
+source    = { type = "uuid", prefix = "src_" }

keeps field.also at entity.ticket.fields.ownerId
-ownerId   = { type = "ulid" }
+ownerId   = { type = "ulid", also = "owner_[0-9]{1,8}" }

breaks field.precision at entity.ticket.fields.dueAt
-dueAt     = { type = "timestamp", precision = "millis" }
+dueAt     = { type = "timestamp", precision = "micros" }

breaks field.min at entity.ticket.fields.urgency
-urgency   = { type = "integer", min = 1, max = 9 }
+urgency   = { type = "integer", min = 2, max = 9 }

keeps field.min at entity.ticket.fields.weight
-weight    = { type = "number", min = 0, max = 100 }
+weight    = { type = "number", min = -5, max = 100 }

breaks field.min at entity.ticket.fields.tags
-tags      = { type = "list", min = 1, max = 10, items = { type = "string", max = 30 } }
+tags      = { type = "list", min = 2, max = 10, items = { type = "string", max = 30 } }

breaks field.max at entity.ticket.fields.weight
-weight    = { type = "number", min = 0, max = 100 }
+weight    = { type = "number", min = 0, max = 99.5 }

keeps field.max at entity.ticket.fields.urgency
-urgency   = { type = "integer", min = 1, max = 9 }
+urgency   = { type = "integer", min = 1, max = 10 }

breaks field.max at entity.ticket.fields.label
-label     = { type = "string", max = 40 }
+label     = { type = "string", max = 39 }

breaks field.max at entity.ticket.fields.tags
-tags      = { type = "list", min = 1, max = 10, items = { type = "string", max = 30 } }
+tags      = { type = "list", min = 1, max = 9, items = { type = "string", max = 30 } }

breaks field.max at entity.ticket.fields.notes
-notes     = { type = "any", max = 2000 }
+notes     = { type = "any", max = 1000 }

breaks field.items at entity.ticket.fields.tags.items
-tags      = { type = "list", min = 1, max = 10, items = { type = "string", max = 30 } }
+tags      = { type = "list", min = 1, max = 10, items = { type = "integer" } }

keeps field.items at entity.ticket.fields.tags
-tags      = { type = "list", min = 1, max = 10, items = { type = "string", max = 30 } }
+tags      = { type = "list", min = 1, max = 10 }

breaks field.fields at entity.ticket.fields.asker.place
-asker     = { type = "map", fields = { place = { type = "string", max = 50 } } }
+asker     = { type = "map", fields = { place = { type = "string", max = 40 } } }

breaks field.fields at entity.ticket.fields.asker.room
-asker     = { type = "map", fields = { place = { type = "string", max = 50 } } }
+asker     = { type = "map", fields = { place = { type = "string", max = 50 }, room = { type = "integer" } } }

keeps field.fields at entity.ticket.fields.asker
-asker     = { type = "map", fields = { place = { type = "string", max = 50 } } }
+asker     = { type = "map" }

keeps field.personal at entity.ticket.fields.phone
-phone     = { type = "string", max = 30, personal = true }
+phone     = { type = "string", max = 30 }

breaks field.immutable at entity.ticket.fields.label
-label     = { type = "string", max = 40 }
+label     = { type = "string", max = 40, immutable = true }

keeps field.immutable at entity.ticket.fields.origin
-origin    = { type = "string", max = 30, immutable = true }
+origin    = { type = "string", max = 30 }

breaks field.secret at entity.ticket.fields.label
-label     = { type = "string", max = 40 }
+label     = { type = "string", max = 40, secret = true }

keeps field.secret at entity.ticket.fields.pin
-pin       = { type = "string", max = 30, secret = true }
+pin       = { type = "string", max = 30 }

breaks field.readonly at entity.ticket.fields.hint
-hint      = { type = "string", max = 30, optional = true }
+hint      = { type = "string", max = 30, optional = true, readonly = true }

keeps field.readonly at entity.ticket.fields.rank
-rank      = { type = "integer", min = 0, max = 9, default = 0, readonly = true }
+rank      = { type = "integer", min = 0, max = 9, default = 0 }

breaks field.since at entity.ticket.fields.leftAt
-leftAt    = { type = "timestamp", optional = true }
+leftAt    = { type = "timestamp", optional = true, since = "exists leftBy" }

breaks field.since at entity.ticket.fields.closedAt
-closedAt  = { type = "timestamp", optional = true, since = "status = 'closed'" }
+closedAt  = { type = "timestamp", optional = true, since = "status != 'open'" }

breaks field.since at entity.ticket.fields.closedAt
-closedAt  = { type = "timestamp", optional = true, since = "status = 'closed'" }
+closedAt  = { type = "timestamp", optional = true }

keeps field.references at entity.ticket.fields.agentId
-references = { entity = "agent", on_delete = "restrict" }

breaks reference.entity at entity.ticket.fields.agentId
-references = { entity = "agent", on_delete = "restrict" }
+references = { entity = "team", on_delete = "restrict" }

breaks reference.on_delete at entity.ticket.fields.agentId
-references = { entity = "agent", on_delete = "restrict" }
+references = { entity = "agent", on_delete = "cascade" }

breaks pattern.entity at access.agents
 [access.agents]
-entity = "agent"
+entity = "team"
+path   = "/crew"

keeps pattern.description at access.tickets_of_agent
-description = "What an agent works on."

breaks pattern.index at access.agents
 [access.agents]
 entity = "agent"
+index  = "GSI2"
..
-index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "AGENT#{agentId}" }
+index.GSI2 = { GSI2PK = "TENANT#{tenantId}", GSI2SK = "{agentId}" }

keeps pattern.index at access.agents
 [access.agents]
 entity = "agent"
+index  = "GSI2"

breaks pattern.by at access.tickets_of_agent
-by          = ["agentId"]
+by          = ["agentId", "createdAt"]

breaks pattern.range at access.tickets_of_agent_between
-range  = "createdAt"

breaks pattern.prefix at access.tickets_beginning_with
-prefix = "ticketId"

breaks pattern.order at access.tickets_of_agent
-order       = "asc"
+order       = "desc"

breaks pattern.filter at access.tickets
-filter  = "urgency = {urgency}"
+filter  = "urgency >= {urgency}"

breaks pattern.projection at access.tickets_of_agent
-projection  = ["ticketId", "subject"]
+projection  = ["ticketId"]

breaks pattern.projection at access.agents
 [access.agents]
 entity = "agent"
+projection = ["agentId"]

keeps pattern.projection at access.tickets_of_agent
-projection  = ["ticketId", "subject"]
+projection  = ["ticketId", "subject", "label"]

keeps pattern.projection at access.tickets_of_agent
-projection  = ["ticketId", "subject"]

keeps pattern.limit at access.tickets_of_agent
-limit       = 50
+limit       = 20

breaks pattern.returns at access.tickets
-returns = "many"
+returns = "count"

breaks pattern.path at access.tickets_of_agent
-path        = "/agents/{agentId}/cases"
+path        = "/cases/of/{agentId}"

breaks pattern.path at access.tickets_of_agent
-path        = "/agents/{agentId}/cases"

breaks pattern.path at access.agents
 [access.agents]
 entity = "agent"
+path   = "/agents/all"

breaks pattern.path at access.agents
 [access.agents]
 entity = "agent"
+path   = false

keeps pattern.path at access.tickets_beginning_with
-path   = false

keeps aggregate.description at aggregate.desk
-description = "One desk."

breaks aggregate.id at aggregate.desk
-id          = "deskId"
+id          = "roomId"

breaks aggregate.events at aggregate.desk
-events      = "event"
+events      = "head"

breaks aggregate.head at aggregate.desk
-head        = "head"
+head        = "event"

breaks aggregate.idempotency at aggregate.desk
-idempotency = "request"

keeps aggregate.snapshot at aggregate.desk
-snapshot    = "state"

breaks aggregate.keys at aggregate.desk
-keys        = "seal"

keeps aggregate.snapshot at aggregate.desk
-snapshot    = "state"
+snapshot    = "picture"

breaks aggregate.projections at aggregate.desk
-projections = ["agent"]
+projections = ["team"]

keeps aggregate.projections at aggregate.desk
-projections = ["agent"]
+projections = ["agent", "team"]

breaks aggregate.event at aggregate.desk.event.DeskClosed
-DeskClosed = {}

keeps aggregate.event at aggregate.desk.event.DeskMoved
 DeskClosed = {}
+DeskMoved = { place = { type = "string" } }

breaks aggregate.event at aggregate.desk.event.DeskOpened.place
-DeskOpened = { place = { type = "string", max = 50 } }
+DeskOpened = { place = { type = "integer" } }
"##;

/// Keys whose change is no difference of its own.
const SILENT: [(&str, &str); 1] = [("design.version", "it is what a difference is held against")];

/// A change of the base design, and what is to be said of it.
struct Row<'t> {
    /// The key of the language that it is about, by the name of its table in the JSON Schema.
    key: &'t str,
    /// Where the difference is reported.
    path: &'t str,
    breaks: bool,
    /// The design after the change.
    after: String,
}

/// Reads a list of changes, each written like a patch: `-` goes, `+` comes, ` ` stays, `..` is a gap.
fn rows(text: &str) -> Vec<Row<'_>> {
    let row = |block| {
        let (head, patch): (&str, &str) = str::split_once(block, '\n').expect("a head and a patch");
        let [verdict, key, "at", path] = head.split(' ').collect::<Vec<_>>()[..] else { panic!("{head}") };
        let mut after = BASE.to_owned();
        for hunk in patch.split("\n..\n") {
            let side = |mark: char| -> String {
                let lines = hunk.lines().filter_map(|line| line.strip_prefix([' ', mark]));
                lines.map(|line| format!("\n{line}")).collect::<String>() + "\n"
            };
            let (old, new) = (side('-'), side('+'));
            assert_eq!(after.matches(&old).count(), 1, "{head}: {old}");
            after = after.replace(&old, &new);
        }
        Row { key, path, breaks: verdict == "breaks", after }
    };
    text.trim().split("\n\n").map(row).collect()
}

fn accepted(what: &str, source: &str) -> Design {
    let checked = check(source, &[]);
    checked.design.unwrap_or_else(|| panic!("{what}: {:#?}", checked.diagnostics))
}

/// What is wrong with what `diff` says of the changes.
fn misjudged(rows: &[Row<'_>]) -> Vec<String> {
    let base = accepted("the base design", BASE);
    let mut wrong = Vec::new();
    for row in rows {
        let checked = check(&row.after, &[]);
        let Some(after) = checked.design else {
            let errors: Vec<_> = checked.diagnostics.iter().map(|each| &each.message).collect();
            wrong.push(format!("{} at {} is rejected: {errors:#?}", row.key, row.path));
            continue;
        };
        let found = diff(&base, &after);
        let reported = found.iter().any(|each| each.path == row.path && each.breaks.is_some() == row.breaks);
        if !reported || found.iter().any(|each| each.breaks.is_some()) != row.breaks {
            let verdict = if row.breaks { "breaks" } else { "keeps" };
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            wrong.push(format!("{verdict} {} at {}, but found {found:#?}", row.key, row.path));
        }
    }
    wrong
}

/// Proves C17.
#[test]
fn changes_that_break_are_told_from_those_that_do_not_as_documented() {
    let wrong = misjudged(&rows(DOCUMENTED));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_other_change_is_reported_and_judged() {
    let wrong = misjudged(&rows(OTHERS));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_key_of_the_language_is_changed() {
    let schema = json_schema();
    let mut tables = vec![("design", &schema)];
    tables.extend(schema["definitions"].as_object().expect("a map").iter().map(|(name, table)| (name.as_str(), table)));
    let all: BTreeSet<String> = tables
        .into_iter()
        .flat_map(|(name, table)| {
            let keys = table["properties"].as_object().expect("a map").keys();
            keys.map(move |key| format!("{name}.{key}"))
        })
        .collect();
    let rows = rows(DOCUMENTED).into_iter().chain(rows(OTHERS)).map(|row| row.key.to_owned());
    let changed: BTreeSet<String> = rows.chain(SILENT.map(|(key, _)| key.to_owned())).collect();
    assert_eq!(all.difference(&changed).collect::<Vec<_>>(), [] as [&String; 0], "no change of these is tried");
    assert_eq!(changed.difference(&all).collect::<Vec<_>>(), [] as [&String; 0], "the language has no such keys");
}

#[test]
fn the_version_alone_is_no_difference_and_says_whether_others_may_break() {
    let base = accepted("the base design", BASE);
    for (version, allowed) in [("1.1", false), ("2.0", true), ("0.9", false)] {
        let next = BASE.replace("version     = \"1.0\"", &format!("version = \"{version}\""));
        let next = accepted(version, &next);
        assert_eq!((diff(&base, &next), allows_breaking(&base, &next)), (vec![], allowed), "{version}");
    }
}

#[test]
fn new_claims_of_a_token_break_nothing_and_the_first_role_locks_out_who_has_none() {
    let claims = "roles  = \"groups\"\nmember_of = \"memberOf\"\n";
    let from = BASE.find("[role.admin]").expect("the roles");
    let to = BASE.find("[http]").expect("what follows them");
    let plain = format!("{}{}", &BASE[..from], &BASE[to..]);
    let bare = accepted("without claims", &plain.replace(claims, "roles = \"groups\"\n"));
    let claimed = accepted("with claims", &plain);
    let texts = |old: &Design, new: &Design| diff(old, new).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&bare, &claimed), ["tenant: the claim of the memberships is now `memberOf`"]);
    let guarded = accepted("with roles", BASE);
    let locked = "role: nobody may do anything without a role any more (callers of the old design fail)";
    assert_eq!(texts(&claimed, &guarded), [locked, "role.admin: added", "role.helper: added", "role.staff: added"]);
}

#[test]
fn visitors_can_be_let_in_but_not_shut_out() {
    let closed = accepted("the base design", BASE);
    let open = accepted("with visitors", &BASE.replace("prefix = \"/v1\"\n", "prefix = \"/v1\"\nvisitors = true\n"));
    let texts = |old: &Design, new: &Design| diff(old, new).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&closed, &open), ["http: reading without a token is now on"]);
    let shut = "http: reading without a token is now off (callers without a token are refused)";
    assert_eq!(texts(&open, &closed), [shut]);
}
