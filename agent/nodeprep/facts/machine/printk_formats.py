"""Formats of printk by class; made by tests/rigs/printk_table.py from docs/kernel_log/formats.tsv."""

# ruff: noqa: E501

FORMATS = {
    "GONE": r"""%s Device state = %d health sensors: %d pci_status: %d. Done, err = %d, device Failed
%s Device state = %d pci_status: %d. Exit, err = %d, result = %d, disconnect
%s Device state = %d pci_status: %d. Exit, result = %d, disconnect
%s failed, device is unrecoverable
%s(0x%x) canceled on out of queue timeout.
%s(0x%x) timed out while waiting for a slot.
%s(0x%x) timeout while waiting for command semaphore.
%s(0x%x) timeout. Will cause a leak of a command resource
%s: Can not enable the link!
%s: ERROR: mlx4_load_one failed, pci_name=%s, err=%d
%s: FW STALL Detected. cmdq[%#x]=%#x waited (%ld > %d) msec active %d
%s: mlx5_pci_enable_device failed with error code: %d
%s: probe of %04x:%02x:%02x.%d failed with error %d
%s: unrecoverable device error %d
%s: wait vital failed with error code: %d
A previous firmware reset has not completed, aborting
A previous firmware reset has not completed, aborting half open
Abandoning msg {0x%x 0x%x} len: %d due to firmware status: 0x%x
Admin queue is closed
Can't recover - RAS error reported during dev init
Can't recover - error happened before device initialized
Can't set PCI DMA mask, aborting
Cannot enable PCI device, aborting
Cannot find PCI device base address, aborting
Cannot map bar4 registers, aborting
Cannot map device registers, aborting
Cannot map doorbell BAR rc = %d, aborting
Cannot obtain PCI resources, aborting
Cannot re-enable PCI device
Cannot re-enable PCI device after reset, error %d
Cannot re-enable PCI device after reset.
Cannot re-enable PCI device during resume, err = %d
Communication channel command 0x%x timed out
Communication channel is offline.
Couldn't allocate FW area, aborting
Couldn't allocate aux memory, aborting
Couldn't allocate memory to save HCA PCI header, aborting
Couldn't get PCI resources, aborting
Couldn't map HCA reset register, aborting
Couldn't map interrupt clear register, aborting
Couldn't map kernel access region, aborting
Couldn't restore HCA COMMAND, aborting
Couldn't restore HCA PCI Express Device Control register, aborting
Couldn't restore HCA PCI Express Link control register, aborting
Couldn't restore HCA reg %x, aborting
Couldn't save HCA PCI header, aborting
Device isn't ready, abort com init %#x
Device isn't ready, can't reset device
Driver is in error state. Unloading
EFA device init failed
Error (timeout: %u) msg {0x%x 0x%x} len:%d
Error (timeout: %u) msg {0x%x 0x%x} len:%d v:%d
Error resetting device. Please reload the driver
Fail to reset HCA
Failed FW reset via OP-TEE, rc=%d
Failed allocating uar, aborting
Failed in config_mad_demux, aborting
Failed initializing cmdif SW structs, aborting
Failed initializing command interface, aborting
Failed initializing timeouts, aborting
Failed mapping initialization segment, aborting
Failed setting DMA capabilities mask, aborting
Failed to alloc IRQs
Failed to allocate RCFW Channel: %#x
Failed to allocate default counters, aborting
Failed to allocate driver access region, aborting
Failed to allocate resources: %#x
Failed to create EQs
Failed to enable MSI-X. irq_num %d
Failed to enable NQ with rc = 0x%x
Failed to enable RCFW channel: %#x
Failed to init VHCR command interface, aborting
Failed to init command interface, aborting
Failed to init flow steering
Failed to init fw, aborting.
Failed to init master mfunc interface, aborting.
Failed to init readless MMIO
Failed to init slave mfunc interface, aborting
Failed to initialize RCFW: %#x
Failed to initialize RDMA: %d
Failed to initialize completion queue table, aborting
Failed to initialize counters table, aborting
Failed to initialize event queue table, aborting
Failed to initialize memory region table, aborting
Failed to initialize multicast group table, aborting
Failed to initialize protection domain table, aborting
Failed to initialize queue pair table, aborting
Failed to initialize reliable connection domain table, aborting
Failed to initialize resources: %#x
Failed to initialize shared receive queue table, aborting
Failed to initialize user access region table, aborting
Failed to map ALTC context memory, aborting
Failed to map AUXC context memory, aborting
Failed to map CQ context memory, aborting
Failed to map EQ context memory, aborting
Failed to map MCG context memory, aborting
Failed to map MTT context memory, aborting
Failed to map QP context memory, aborting
Failed to map RDMARC context memory, aborting
Failed to map SRQ context memory, aborting
Failed to map cMPT context memory, aborting
Failed to map dMPT context memory, aborting
Failed to obtain HW semaphore, aborting
Failed to read vendor ID, ret=%d
Failed to register with IB: %#x
Failed to reinitialize after aborted firmware reset
Failed to remap register bar
Failed to reset HCA, aborting
Failed to reset HCA, aborting.
Failed to set hca defaults
Failed to set port %d, aborting
Failed to start FW, aborting
Failed to switch to event-driven firmware commands, aborting
Fatal error %u detected
Firmware init phase 1 failed
Firmware init phase 2 failed
Firmware is not responsive (0x%04x) after %llu ms
Firmware not ready
Firmware not responding, status: 0x%x
Firmware over %llu MS in initializing state, aborting
Firmware over %llu MS in pre-initializing state, aborting
Firmware reset aborted
Firmware reset aborted, PCI config space invalid
Firmware reset aborted, bnxt_get_registered_vfs() returns %d
Firmware reset aborted, rc = %d
Firmware reset aborted, subsequent func_qcfg cmd failed, rc = %d, %d msecs since reset timestamp
HCA has %d ports, but we only support %d, aborting
HCA minimum page size of %d bigger than kernel PAGE_SIZE of %ld, aborting
HCA reported UAR region size of 0x%x bigger than PCI resource 2 size of 0x%llx, aborting
HCA reported UAR size of 0x%x bigger than PCI resource 2 size of 0x%llx, aborting
HW runtime init FAIL status = %d last cmpl = %d
Health issue observed, %s, severity(0) EMERGENCY:
Health issue observed, %s, severity(1) ALERT:
Health issue observed, %s, severity(2) CRITICAL:
INIT_HCA command failed, aborting
INTx is not supported in multi-function mode, aborting
IRDMA hardware initialization FAILED init_state=%d status=%d
In reset process RoCE reinit failed %d.
Internal error detected on the communication channel
Internal error detected:
MAP_FA command failed, aborting
MAP_ICM_AUX command failed, aborting
Missing UAR, aborting
Missing registers BAR, aborting
Multiple Uncorrectable (Fatal) error message received from %04x:%02x:%02x.%d
Multiple Uncorrected (Fatal) error message received from %04x:%02x:%02x.%d
Multiple Uncorrected (Fatal) error received: %04x:%02x:%02x.%d
NOP command failed to generate interrupt (IRQ %d), aborting
Only same port types supported on this HCA, aborting
PCI can't be accessed to read vendor id
PCI channel offline, stop waiting for NIC IFC
PCI channel offline, stop waiting for PCI
PCI device did not come back after reset, aborting
PCI link not ready (0x%04x) after %llu ms
PCI slot is unavailable
PCIe Bus Error: severity=Uncorrectable (Fatal), type=%s, (%s)
PCIe Bus Error: severity=Uncorrected (Fatal), type=%s, (%s)
PF VSI rebuild failed: %d
PF is not responsive, skipping initialization
QUERY_ADAPTER command failed, aborting
QUERY_DEV_CAP command failed, aborting
QUERY_DEV_CAP command failed, aborting.
QUERY_FUNC command failed, aborting.
QUERY_FUNC_CAP general command failed, aborting (%d)
QUERY_FUNC_CAP port command failed for port %d, aborting (%d)
QUERY_FW command failed, aborting
QUERY_HCA command failed, aborting
QUERY_PORT command failed for port %d, aborting (%d)
QUERY_PORT command failed, aborting
RESET_DONE not set during FW reset.
RUN_FW command failed, aborting
Reading register timed out. expected: req id[%u] offset[%#x] actual: req id[%u] offset[%#x]
Rebuild failed, unload and reload driver
Rebuild of main VSI failed again
Reinitialize RDMA during resume failed: %d
Reset during resume failed.
Reset fail!
Reset indication didn't turn off
Reset indication didn't turn on
Resp cmpl intr abandoning msg: 0x%x due to firmware status: 0x%x
Resp cmpl intr err msg: 0x%x
RoCE Engine init failed!
SET_ICM_SIZE command failed, aborting
Set special QP caps failed. aborting
Slot(%s): Cannot train link: status %#06x
Slot(%s): Card not present
Slot(%s): Link Down
Slot(%s): No device found
Slot(%s): No link
System does not support DMA, aborting
The device didn't send any completion for admin cmd %s(%d) status %d (ctx 0x%p, sq producer: %d, sq consumer: %d, cq consumer: %d)
The device sent a completion but the driver didn't receive any MSI-X interrupt for admin cmd %s(%d) status %d (ctx: 0x%p, sq producer: %d, sq consumer: %d, cq consumer: %d)
The driver for the device stopped because the NVM image is newer than expected. You must install the most recent version of the network driver.
Unable to change power state from %s to %s, device inaccessible
Unable to change power state from %s to D0, device inaccessible
Unable to reset FW rc=%d
Uncorrectable (Fatal) error message received from %04x:%02x:%02x.%d
Uncorrected (Fatal) error message received from %04x:%02x:%02x.%d
Uncorrected (Fatal) error received: %04x:%02x:%02x.%d
Wait for completion (polling) timeout
Wait for reset timed out (10s) during resume: %d
[cmd] token 0x%x mailbox 0x%x timeout.
bnxt_open() failed during FW reset
can't change power state from %s to %s (config space inaccessible)
can't recover (no error_detected callback)
can't recover (state transition %u -> %u invalid)
cmd init failed!
cmd[%d]: %s(0x%x) Async, timeout. Will cause a leak of a command resource
cmdq[%#x]=%#x timedout (%d)msec
command 0x%x timed out (go bit not cleared)
communication channel command 0x%x (op=0x%x) timed out
communication channel is offline
containment event, status:%#06x source:%#06x
containment event, status:%#06x, %s received from %04x:%02x:%02x.%d
containment event, status:%#06x: %s detected
control queues init failed %d
couldn't recover UMR, err %d
device recovery failed
device's health compromised - reached miss count
devm_ioremap failed.
driver needs to be unloaded and reloaded
enable hca failed
eq init failed!
error requesting BARs, aborting
failed to allocate boot pages
failed to allocate init pages
failed to enable PCI device
failed to fetch H/W reset completion status
failed to map device memory
failed to reset VF stack
failed to set issi
health recovery failed
health recovery flow aborted, PCI reads still not working
hw_init failed!
ib_register_device failed: ret = %d
ice_init_hw failed: %d
ice_init_interrupt_scheme failed: %d
ice_init_nvm failed %d
ice_init_pf failed: %d
init RoCE Command Queue failed!
init ae_dev error, ret = %d
init hca failed
mlx4_restart_one_up failed, ret=%d
mlx5_init_one failed with error code %d
mlx5_pci_init failed with error code %d
not ready %dms after %s; giving up
pci %04x:%02x:%02x.%d: not ready after %dms; giving up
pci_enable_device failed(%d)
pci_enable_device_mem() failed!
probe failed due to setup PF switch: %d
probe with driver bnxt_en failed with error %d
probe with driver efa failed with error %d
probe with driver erdma failed with error %d
probe with driver hns3 failed with error %d
probe with driver ice failed with error %d
probe with driver mlx4_core failed with error %d
probe with driver mlx5_core failed with error %d
query hca failed
request irq vectors failed(%d)
reset %d failed
reset reload flow aborted, PCI reads still not working
retraining failed
set_hca_cap failed
set_hca_ctrl failed
subordinate device reset failed
sw objs init failed
synd 0x%x: HW fatal error
synd 0x%x: firmware CRC error
synd 0x%x: irisc not responding
synd 0x%x: unrecoverable hardware error
tx_timeout recovery unsuccessful, device is in unrecoverable state.
wait init done failed.""",
    "RECOVERS": r"""%s %s found [error status=0x%x]
%s Device state = %d health sensors: %d pci_status: %d. Done, err = %d, device recovered
%s Device state = %d health sensors: %d pci_status: %d. Enter, loading driver..
%s Device state = %d health sensors: %d pci_status: %d. Enter, pci channel state = %d
%s Device state = %d pci_status: %d. Enter
%s Device state = %d pci_status: %d. Exit, err = %d, result = %d, recovered
%s Device state = %d pci_status: %d. Exit, result = %d, need reset
%s Port link has been reset (%d)
%s [error status=0x%x] found
%s firmware reset event, data1: 0x%x, data2: 0x%x, min wait %u ms, max wait %u ms
AEQ overflow!
An error occurred on the device while loading the DDP package.  The device will be reset.
Cmd queue init failed
Command completion arrived after timeout (entry idx = %d).
Detected IMP RD poison!
Detected PPU poison!
Detected firmware fatal condition, initiating reset
Disabling any further commands to IMP firmware
Expected to see disabled NIC but it is full driver
Expected to see disabled NIC but it is has invalid value %d
Expected to see disabled NIC but it is no dram nic
FW reset in progress during close, FW reset will be aborted
Firmware recover via OP-TEE requested
Firmware reset already in progress
Firmware responds to PCI config cycles again
Got Device Reset
HMC Error
HNS Non-Fatal RAS error(status=0x%x) identified
HNS hw error(RAS) identified during init
Health issue observed, %s, severity(3) ERROR:
ICE OICR event notification: oicr = 0x%08x
IMP firmware watchdog reset soon expected!
IMP reset interrupt
IMP reset requested
In reset process RoCE client reinit.
In reset process RoCE client uninit.
Internal error detected, restarting device
Internal error mark was detected on device
Issuing FW Reset
NIC IFC still %d after %lums.
NIC SW reset in progress
Not issuing FW reset. Either it's already done or won't help.
PCI I/O error detected
PCI Slot Reset
PCI Slot Resume
PCI Sync FW Update Reset Ack. Device reset is expected.
PCI error detected, state(=%u)!!
PE Push Error
PF reset requested
PPU_MPF_ABNORMAL_INT_ST1 rpu_rx_pkt_ecc_mbit_err found
ROCEE Non-Fatal RAS error identified
ROCEE RAS 2bit ECC error
ROCEE RAS AXI bresp error
ROCEE RAS AXI rresp error
ROCEE SCC OVF [error status=0x%x] found
ROCEE TSP OVF [error status=0x%x] found
RX ring reset failed to allocate buffers, rc = %d, falling back to global reset
RX ring reset failed, rc = %d, falling back to global reset
Recovered %d EQEs on cmd_eq
Recovered %d eqes on EQ 0x%x
Requesting a reset
Reset done
Reset done, %s driver initialization finished.
SSU_ECC_MULTI_BIT_INT_1 ssu_mem32_ecc_mbit_err found [error status=0x%x]
Slot(%s): Link Down/Up ignored (recovered by DPC)
Sync Reset now. Device is going to reset.
VF Reset succeed
VF is sending reset request to Firmware
Wait for reset timeout: %d
assert PF reset done fail %d!
asserting function reset fail %d!
cmd[%d]: %s(0x%x) Async, recovered after timeout
cmd[%d]: %s(0x%x) recovered after timeout
couldn't get reset done status from h/w, timeout!
critical PE Error, GLPE_CRITERR=0x%08x
device is going to be reset
device recovery successful
device was reset successfully
fail to rebuild, ret=%d
failed to prepare to reset, ret=%d, reset_pending:0x%lx, retry_cnt:%d
found %s %s, is %s error.
global reset interrupt
global reset requested
handling bad device here
has been reset
health recovery succeeded
imp_rd_data_poison_err found
mlx4_ib_handle_catas_error ended
mlx4_ib_handle_catas_error was started
mlx4_pci_err_detected was called
mlx4_pci_slot_reset was called
mlx4_restart_one was ended, ret=%d
not ready %dms after %s; waiting
re-schedule reset task(%u)
received reset event, reset type is %d
reg umr failed (%u). Trying to recover and resubmit the flushed WQEs, mkey = %u
requesting reset due to NCSI error
requesting reset due to PCI error
reset done, RoCE client reinit finished.
starting health recovery flow
starting teardown
synd 0x%x: firmware internal error
timed out waiting for pending transaction; performing function level reset anyway
tx_timeout recovery level %d, txqueue %u""",
    "STALLED": r"""Fake Tx hang detected on queue %u, timeout caused by PFC storm
NETDEV WATCHDOG: %s (%s): transmit queue %u timed out
NETDEV WATCHDOG: CPU: %d: transmit queue %u timed out %u ms
Pause Storm detected!
TX timeout detected
TX timeout detected, starting reset task!
TX timeout on queue: %d, QP: 0x%x, CQ: 0x%x, Cons: 0x%x, Prod: 0x%x
Tx timeout called on port:%d
mlx5e_safe_reopen_channels failed recovering from a tx_timeout, err(%d).
tx_timeout count: %llu, queue id: %d, SW_NTU: 0x%x, SW_NTC: 0x%x, napi state: %lu
tx_timeout: VSI_num: %d, Q %u, NTC: 0x%x, HW_HEAD: 0x%x, NTU: 0x%x, INT: 0x%x""",
    "HOT": r"""Chip temperature has gone above the %s thermal threshold!
Health issue observed, High temperature, severity(%d) %s:
High temperature on sensors with bit set %llx %llx
Port module event[error]: module %u, %s, High Temperature
Temperature Threshold was reached! Threshold: %d celsius degrees; Current Temperature: %d
synd 0x%x: High temperature""",
    "POWER": r"""Port module event[error]: module %u, %s, One or more network ports have been powered down due to insufficient/unadvertised power on the PCIe slot
Port module event[error]: module %u, %s, Power budget exceeded
SFP+ module is shutdown
Slot(%s): Power fault
The module's power requirements exceed the device's power supply. Cannot start link""",
    "NOTHING": r"""%s(0x%x) op_mod(0x%x) failed, status %s(0x%x), syndrome (0x%x)
%s(0x%x) op_mod(0x%x) failed, status %s(0x%x), syndrome (0x%x), err(%d)
64B EQEs/CQEs supported by the device but not enabled
Able to reserve only %d out of %d requested RX rings
Assigned random MAC address %pM
Chip temperature has gone below the %s thermal threshold!
Detected insufficient power on the PCIe slot (%uW).
Detected virtual function - running in slave mode
ERR_FATAL detected
ERR_NONFATAL detected
Enabling SR-IOV with %d VFs
Error of this Agent is reported first
FW pages counter is %d after reclaiming all pages
Failed to create ah for %pI6 [%d]
Failed to process command %s (opcode %u) comp_status %d err %d
Failed to register mr [%d]
HCA minimum page size:%d
Initializing port
NIC Link is Down
PCIe Bus Error: severity=Correctable, type=%s, (%s)
PCIe Bus Error: severity=Corrected, type=%s, (%s)
PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=%s, (%s)
PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=%s, (%s)
PF is not ready - Deferring probe
Port link mode changed, restarting port...
Q1 Resource Check
Running in master mode
Sending reset
Sending vhcr0
TLP Header: %#010x %#010x %#010x %#010x
TLP Header: %08x %08x %08x %08x
TLP Prefix Header: dw%d, %#010x
Temperature (In Celsius), Current: %lu, threshold: %lu
UDP RSS is not supported on this device
Using %d RX rings
Using %d TX rings
WC error: %d, Message: %s
Waiting for FW initialization, timeout abort in %ds (0x%x)
abnormal ae_id = 0x%x bool qp=%d qp_id = %d, ae_src=%d
aer_layer=%s, aer_agent=%s
aer_status: 0x%08x, aer_mask: 0x%08x
aer_uncor_severity: 0x%08x
application TOS[%d] and remote client TOS[%d] mismatch
assert_callra 0x%08x
assert_exit_ptr 0x%08x
assert_var[%d] 0x%08x
broken device, retraining non-functional downstream link at 2.5GT/s
cmd[%d]: %s(0x%x) No done completion
command 0x%x failed: fw status = 0x%x
device [%04x:%04x] error status/mask=%08x/%08x
dump error cqe
ext_synd 0x%04x
failed (%d) to link netdev
fatal QP event: SQ in error but not flushed, qp: %d
fw_health_status 0x%x
fw_ver %d.%d.%d
hw_id 0x%08x
hwrm req_type 0x%x seq id 0x%x error 0x%x
irisc_index %d
local ACK timeout shall be 0 to 20.
local ACK timeout shall be 0 to 31.
query_mcia_reg failed: status: 0x%x
raw fw_ver 0x%08x
severity %d (%s)
unmasked uncorrectable error detected""",
}
