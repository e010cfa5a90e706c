"""What type checkers see of the package: the lazy names of ``__init__.py``, told outright."""

from millstream.client.application.admin import Admin as Admin
from millstream.client.application.consumer import Consumer as Consumer
from millstream.client.application.delivery import Delivery as Delivery
from millstream.client.application.errors import BadSetting as BadSetting
from millstream.client.application.errors import BadUse as BadUse
from millstream.client.application.errors import DeliveryFailed as DeliveryFailed
from millstream.client.application.errors import Fenced as Fenced
from millstream.client.application.errors import GroupInUse as GroupInUse
from millstream.client.application.errors import MillstreamError as MillstreamError
from millstream.client.application.errors import PartitionsLost as PartitionsLost
from millstream.client.application.errors import Refused as Refused
from millstream.client.application.errors import SerializationFailed as SerializationFailed
from millstream.client.application.errors import TopicExists as TopicExists
from millstream.client.application.errors import TransactionAborted as TransactionAborted
from millstream.client.application.errors import UnknownGroup as UnknownGroup
from millstream.client.application.errors import UnknownTopic as UnknownTopic
from millstream.client.application.errors import Unreachable as Unreachable
from millstream.client.application.open_transactions import TransactionInfo as TransactionInfo
from millstream.client.application.outputs import Output as Output
from millstream.client.application.partitioners import key_hash as key_hash
from millstream.client.application.partitioners import round_robin as round_robin
from millstream.client.application.process import process as process
from millstream.client.application.processor import Processed as Processed
from millstream.client.application.producer import Producer as Producer
from millstream.client.application.record import Record as Record
from millstream.client.application.sent import Delivered as Delivered
from millstream.client.application.sent import Sent as Sent
from millstream.client.application.serialization import Deserializer as Deserializer
from millstream.client.application.serialization import Serializer as Serializer
from millstream.client.application.transaction import Transaction as Transaction
from millstream.model.ids import TopicPartition as TopicPartition

__version__: str
