\set n random(1, 1000)
\set user random(0, :users - 1)
INSERT INTO task (user_id, title, description, status, category, due_date)
VALUES (
    'user-' || lpad(:user::text, 4, '0'),
    'Answer the mail of customer ' || :n,
    'They ask when the order will arrive, and whether it can be sent to another address.',
    'open',
    'mail',
    '2026-01-31'
)
RETURNING *;
