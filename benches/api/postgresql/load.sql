INSERT INTO task (task_id, user_id, title, description, status, category, due_date, created_at)
SELECT
    'task-' || lpad(n::text, 8, '0'),
    'user-' || lpad((n % :users)::text, 4, '0'),
    'Answer the mail of customer ' || n,
    'They ask when the order will arrive, and whether it can be sent to another address.',
    'open',
    'mail',
    '2026-01-31',
    now() + n * interval '1 microsecond'
FROM generate_series(1, :items) AS n;
