from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0015_project_identity"),
    ]

    operations = [
        migrations.AlterField(
            model_name="memory",
            name="trash_reason",
            field=models.CharField(
                blank=True,
                choices=[
                    ("forgotten", "forgotten"),
                    ("evicted", "evicted"),
                    ("compressed", "compressed"),
                    ("merged", "merged"),
                    ("undone", "undone"),
                ],
                default="",
                max_length=12,
            ),
        ),
    ]
