package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// Bounds of spec.hardware. Memory and CPUs are bounded by MaxMemory and MaxCPU.
const (
	// MaxHardwareVersion bounds the virtual hardware version: vSphere 9 has vmx-22.
	MaxHardwareVersion = 99
	// MaxMHz bounds a reservation or limit of a member's CPUs: 768 CPUs of 13 GHz.
	MaxMHz = 10_000_000
	// MaxMiB bounds a reservation or limit of a member's memory: MaxMemory in MiB.
	MaxMiB = MaxMemory * 1024
	// MaxShares bounds a number of shares: it is what High gives a VM with MaxMemory. vSphere's API states no bound (SharesInfo.shares).
	MaxShares = 20 * MaxMiB
	// MaxBootDelay bounds the delay of a boot, in seconds (VMware Cloud Director API, BootOptions: 10,000 milliseconds).
	MaxBootDelay = 10
	// MaxPCIDevices bounds the PCI devices of a VM (VMware Configuration Maximums, vSphere 8: 32 with dynamic DirectPath I/O, 16 vGPUs).
	MaxPCIDevices = 16
	// MaxVGPUProfile bounds the name of a vGPU profile, in characters.
	MaxVGPUProfile = 80
	// MinPCIDeviceVersion is the oldest hardware version with PCI devices of the host (kubernetes-sigs/cluster-api-provider-vsphere#1749;
	// vm-operator's MinSupportedHWVersionForPCIPassthruDevices, also for vGPUs).
	MinPCIDeviceVersion = 17
	// MinVTPMVersion is the oldest hardware version with a virtual TPM.
	MinVTPMVersion = 14
)

// The levels of shares. vSphere gives a VM a number of shares for each CPU and each MiB; each level has twice the shares of the level
// before.
const (
	SharesLow    = "Low"
	SharesNormal = "Normal"
	SharesHigh   = "High"
)

// BootDevice is what the firmware tries first.
//
// +kubebuilder:validation:Enum=Disk;Network
type BootDevice string

// The kinds of devices that the firmware can try first: the first disk, or the network adapters in the order of spec.networks.
const (
	BootDisk    BootDevice = "Disk"
	BootNetwork BootDevice = "Network"
)

// Hardware is the virtual hardware of members, beyond the number of CPUs and the size of memory. For fields that are unset or 0, members
// have what the template has. Reservations, limits and shares change while members run. A change of any other field replaces the members,
// because only a new clone can get it.
//
// plan.Revision hashes the JSON of Hardware: a new field needs omitempty, so that groups that don't set the field keep their revision.
//
// +kubebuilder:validation:XValidation:rule="self.?memoryReservationMiB.orValue(0) == 0 || !self.?reserveAllMemory.orValue(false) && self.?pciDevices.orValue([]).size() == 0",message="excludes reserveAllMemory and pciDevices, which reserve all memory: remove it",fieldPath=".memoryReservationMiB",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?cpuLimitMHz.orValue(0) == 0 || self.?cpuReservationMHz.orValue(0) <= self.cpuLimitMHz",message="must be at least the reservation",fieldPath=".cpuLimitMHz",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?memoryLimitMiB.orValue(0) == 0 || self.?memoryReservationMiB.orValue(0) <= self.memoryLimitMiB",message="must be at least the reservation",fieldPath=".memoryLimitMiB",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?memoryLimitMiB.orValue(0) == 0 || !self.?reserveAllMemory.orValue(false) && self.?pciDevices.orValue([]).size() == 0",message="excludes reserveAllMemory and pciDevices, which reserve all memory: remove it",fieldPath=".memoryLimitMiB",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?reserveAllMemory.orValue(true) || self.?pciDevices.orValue([]).size() == 0",message="pciDevices need all memory reserved: remove it",fieldPath=".reserveAllMemory",reason=FieldValueInvalid
type Hardware struct {
	// version is the minimum virtual hardware version of members: 0 to 99; 19 means vmx-19. If the template's version is older, the server
	// upgrades each clone before its first power-on. 0, the default, keeps the template's version.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=99
	// +optional
	Version int32 `json:"version,omitempty"`
	// coresPerSocket is the number of cores of each virtual CPU socket: 0 to 768. spec.cpu must be a multiple of this number. 0, the default,
	// keeps the template's number if spec.cpu is a multiple of it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=768
	// +optional
	CoresPerSocket int32 `json:"coresPerSocket,omitempty"`
	// cpuHotAdd allows running members to get more CPUs.
	// +optional
	CPUHotAdd *bool `json:"cpuHotAdd,omitempty"`
	// memoryHotAdd allows running members to get more memory.
	// +optional
	MemoryHotAdd *bool `json:"memoryHotAdd,omitempty"`
	// cpuReservationMHz is the CPU time that the host guarantees to each member, for all its CPUs together, in MHz: 0 to 10000000.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	// +optional
	CPUReservationMHz int32 `json:"cpuReservationMHz,omitempty"`
	// cpuLimitMHz is the maximum CPU time of each member, for all its CPUs together, in MHz: 0 to 10000000, and at least cpuReservationMHz.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	// +optional
	CPULimitMHz int32 `json:"cpuLimitMHz,omitempty"`
	// cpuShares are each member's shares of CPU time when members compete for it: Low, Normal or High (500, 1000 or 2000 for each CPU), or a
	// number for all CPUs of the member together, 1 to 503316480.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self in ['Low', 'Normal', 'High'] : (self >= 1 && self <= 503316480)",message="must be Low, Normal, High or a number from 1 to 503316480"
	// +optional
	CPUShares *intstr.IntOrString `json:"cpuShares,omitempty"`
	// reserveAllMemory reserves host memory for all memory of each member, also after a resize.
	// +optional
	ReserveAllMemory *bool `json:"reserveAllMemory,omitempty"`
	// memoryReservationMiB is the host memory that is guaranteed to each member, in MiB: 0 to 25165824, and at most spec.memory. Excludes
	// reserveAllMemory.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=25165824
	// +optional
	MemoryReservationMiB int32 `json:"memoryReservationMiB,omitempty"`
	// memoryLimitMiB is the maximum host memory of each member, in MiB: 0 to 25165824, and at least memoryReservationMiB. The host swaps the
	// member's memory beyond the limit. Excludes reserveAllMemory.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=25165824
	// +optional
	MemoryLimitMiB int32 `json:"memoryLimitMiB,omitempty"`
	// memoryShares are each member's shares of host memory when members compete for it: Low, Normal or High (5, 10 or 20 for each MiB), or a
	// number for all memory of the member, 1 to 503316480.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self in ['Low', 'Normal', 'High'] : (self >= 1 && self <= 503316480)",message="must be Low, Normal, High or a number from 1 to 503316480"
	// +optional
	MemoryShares *intstr.IntOrString `json:"memoryShares,omitempty"`
	// secureBoot makes the firmware refuse boot loaders and kernels without a valid signature. The template must boot with EFI.
	// +optional
	SecureBoot *bool `json:"secureBoot,omitempty"`
	// vtpm gives each member a virtual TPM of its own, whether the template has one or not. The template must boot with EFI, members need
	// hardware version 14 or newer, and vCenter needs a default key provider: it encrypts the members' files, but not their disks.
	// +optional
	VTPM bool `json:"vtpm,omitempty"`
	// bootDelaySeconds is how long the firmware waits before it boots, in seconds: 0 to 10.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	BootDelaySeconds int32 `json:"bootDelaySeconds,omitempty"`
	// bootFirst is the device that the firmware tries to boot from first, instead of the template's boot order: Disk (the first disk), or
	// Network (the network adapters, then the first disk).
	// +optional
	BootFirst BootDevice `json:"bootFirst,omitempty"`
	// pciDevices are PCI devices of the host that each member gets: at most 16, which the server's flag --pci-devices must allow. They reserve
	// all memory of the member, and need hardware version 17 or newer. Each entry is the vendor and device id of a passthrough device, in
	// hexadecimal, as lspci -n prints them ("10de:1eb8"), or the name of a vGPU profile ("grid_t4-4c") of at most 80 characters.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=80
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[0-9a-f]{4}:[0-9a-f]{4}$|^[^:]+$')",message="must be a vendor and device id in hexadecimal, such as 10de:1eb8, or a vGPU profile, such as grid_t4-4c"
	// +listType=atomic
	// +optional
	PCIDevices []string `json:"pciDevices,omitempty"`
}

// Allocation returns the part of the hardware that members get while they run: reservations, limits and shares.
func (h *Hardware) Allocation() Hardware {
	return Hardware{
		CPUReservationMHz: h.CPUReservationMHz, CPULimitMHz: h.CPULimitMHz, CPUShares: h.CPUShares, ReserveAllMemory: h.ReserveAllMemory,
		MemoryReservationMiB: h.MemoryReservationMiB, MemoryLimitMiB: h.MemoryLimitMiB, MemoryShares: h.MemoryShares,
	}
}

// WithoutAllocation returns the part that only a new clone gets.
func (h Hardware) WithoutAllocation() Hardware {
	h.CPUReservationMHz, h.CPULimitMHz, h.CPUShares, h.ReserveAllMemory = 0, 0, nil, nil
	h.MemoryReservationMiB, h.MemoryLimitMiB, h.MemoryShares = 0, 0, nil
	return h
}
