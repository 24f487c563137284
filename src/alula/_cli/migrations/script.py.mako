"""${message}

Created on ${create_date.strftime("%Y-%m-%d %H:%M")}, by `alula generate migration`. Look through it
before you run it with `alula migrate`: a renamed column is a removed one and a new one here.
"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision: str = ${repr(up_revision)}
down_revision: str | tuple[str, ...] | None = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the tables."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Change them back."""
    ${downgrades if downgrades else "pass"}
