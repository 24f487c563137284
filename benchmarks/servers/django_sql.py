"""Django REST framework on a table, as its tutorial has it, by gunicorn's threads."""

import os
from urllib.parse import urlsplit

import django
from django.conf import settings

url = urlsplit(os.environ["BENCH_SQL"])
if url.scheme == "sqlite":
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": url.path[1:]}
else:
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path[1:],
        "USER": url.username,
        "HOST": url.hostname,
        "PORT": url.port,
        "CONN_MAX_AGE": None,
    }
settings.configure(
    DATABASES={"default": database},
    ROOT_URLCONF=__name__,
    SECRET_KEY="benchmark",
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=["django.contrib.contenttypes", "rest_framework"],
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_PERMISSION_CLASSES": [],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        "UNAUTHENTICATED_USER": None,
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402  # after the settings
from django.db import models  # noqa: E402  # Django wants its settings first
from rest_framework import serializers, viewsets  # noqa: E402  # Django wants its settings first
from rest_framework.response import Response  # noqa: E402  # Django wants its settings first
from rest_framework.routers import SimpleRouter  # noqa: E402  # Django wants its settings first


class Record(models.Model):
    text = models.TextField()
    room = models.TextField()
    read = models.BooleanField()
    createdAt = models.BigIntegerField()  # noqa: N815  # the name of the column

    class Meta:
        app_label = "bench"
        db_table = "records"
        managed = False


class RecordSerializer(serializers.ModelSerializer):
    class Meta:
        model = Record
        fields = "__all__"


class Records(viewsets.ModelViewSet):
    queryset = Record.objects.all()
    serializer_class = RecordSerializer

    def list(self, request):
        query = request.query_params
        if not query:
            return Response([])
        limit, skip = int(query["$limit"]), int(query["$skip"])
        matching = self.get_queryset().filter(room=query["room"])
        sign = "" if query["$sort[createdAt]"] == "1" else "-"
        page = matching.order_by(f"{sign}createdAt")[skip : skip + limit]
        data = self.get_serializer(page, many=True).data
        return Response({"total": matching.count(), "limit": limit, "skip": skip, "data": data})


router = SimpleRouter(trailing_slash=False)
router.register("records", Records)
urlpatterns = router.urls
app = get_wsgi_application()
