"""The broker's settings that transactions obey, under Kafka's names."""

from dataclasses import dataclass
from functools import lru_cache

from millstream.config import transactions
from millstream.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Kafka's defaults; the broker gives its own values."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 3_600_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_two_phase_commit_enable: bool = True


@lru_cache(maxsize=2)
def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    """A broker's own values; asked for at every request, and reckoned once, for a config never changes."""
    return TransactionSettings(
        transaction_max_timeout_ms=config.get(transactions.TRANSACTION_MAX_TIMEOUT_MS),
        transactional_id_expiration_ms=config.get(transactions.TRANSACTIONAL_ID_EXPIRATION_MS),
        transaction_remove_expired_transaction_cleanup_interval_ms=config.get(
            transactions.TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS
        ),
        transaction_two_phase_commit_enable=config.get(transactions.TRANSACTION_TWO_PHASE_COMMIT_ENABLE),
    )
