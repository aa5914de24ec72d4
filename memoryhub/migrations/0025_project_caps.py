from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0024_nodes")]

    operations = [
        migrations.AddField(
            model_name="project",
            name="max_memories",
            field=models.PositiveIntegerField(
                null=True, blank=True, help_text="Most live memories of an owner; 0: no cap; null: as configured"
            ),
        ),
    ]
