\set n random(1, :items)
SELECT * FROM task WHERE task_id = 'task-' || lpad(:n::text, 8, '0');
