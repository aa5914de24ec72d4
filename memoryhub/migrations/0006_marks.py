from django.db import migrations


class Migration(migrations.Migration):
    """Changes no table of a model. A store of before lacks the marks of memoryhub/backends/change_log.py, which are
    made after every migration: this one says that it is not up to date.
    """

    dependencies = [
        ('memoryhub', '0005_identity'),
    ]

    operations = []
