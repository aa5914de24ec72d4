from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memoryhub', '0012_waiting_events'),
    ]

    operations = [
        migrations.AddField(
            model_name='project',
            name='sends_page',
            field=models.BooleanField(default=True, help_text='Whether its page opens the sessions of agents'),
        ),
        migrations.AddField(
            model_name='project',
            name='off_page_facts',
            field=models.JSONField(blank=True, default=list, help_text='ids of public facts that its page leaves out'),
        ),
        migrations.AddField(
            model_name='injection',
            name='page',
            field=models.JSONField(blank=True, default=list, help_text="kind and id of each line shown of the project's page"),
        ),
    ]
