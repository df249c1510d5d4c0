"""One partition's transition that takes no election.

Source: docs/controller.md, section 3.4; Kafka 3.9, `ZkPartitionStateMachine.doHandleStateChanges`.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from kfast.kernels.effects cimport begin_effect, carry_record, put_partition_state, tally_effect
from kfast.kernels.rules cimport RuleSet
from kfast.kernels.slots cimport ILLEGAL_STATE, P_NON_EXISTENT, P_NO_ENTRY, Effect, row_t


cdef inline void move_partition(
    row_t row, uint8_t flags, int target, const RuleSet* rules, uint8_t* code, Effect* out,
    int64_t* tally
) noexcept nogil:
    cdef Effect effect
    cdef uint32_t valid_previous = rules.partition_previous[target]
    if row.record.partition_state == P_NO_ENTRY:
        row.record.partition_state = P_NON_EXISTENT
    begin_effect(&effect, row, -1, row.record.partition_state, target, flags)
    if (valid_previous >> row.record.partition_state) & 1:
        put_partition_state(row, target, flags, tally)
    else:
        effect.code = ILLEGAL_STATE
    code[0] = effect.code
    tally_effect(&effect, tally)
    if out != NULL:
        carry_record(&effect, row.record)
        out[0] = effect
