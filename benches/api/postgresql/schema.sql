-- The same task: eleven fields, a version, two indexes, and the wall as row-level security.

CREATE TABLE task (
    tenant_id   text        NOT NULL DEFAULT current_setting('app.tenant') CHECK (length(tenant_id) BETWEEN 1 AND 64),
    task_id     text        NOT NULL DEFAULT gen_random_uuid()::text CHECK (length(task_id) BETWEEN 1 AND 64),
    user_id     text        NOT NULL CHECK (length(user_id) BETWEEN 1 AND 64),
    title       text        NOT NULL CHECK (length(title) BETWEEN 1 AND 500),
    description text        CHECK (length(description) <= 20000),
    status      text        NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'in_progress', 'waiting', 'done')),
    priority    text        NOT NULL DEFAULT 'normal' CHECK (priority IN ('low', 'normal', 'high')),
    category    text        CHECK (length(category) <= 100),
    due_date    date,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    version     bigint      NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant_id, task_id)
);
CREATE INDEX task_by_status ON task (tenant_id, status, created_at);
CREATE INDEX task_by_user ON task (tenant_id, user_id, created_at);

ALTER TABLE task ENABLE ROW LEVEL SECURITY;
ALTER TABLE task FORCE ROW LEVEL SECURITY;
CREATE POLICY wall ON task USING (tenant_id = current_setting('app.tenant'));

-- Neither the owner of the table nor a superuser: the policy holds for it.
CREATE ROLE app LOGIN;
GRANT SELECT, INSERT ON task TO app;
