\set n random(0, :users - 1)
SELECT * FROM task WHERE user_id = 'user-' || lpad(:n::text, 4, '0') ORDER BY created_at DESC LIMIT 20;
