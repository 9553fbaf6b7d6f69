package v1alpha1

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (s *VmGroupSpec) validateHardware(spec *field.Path) (errs field.ErrorList) {
	h := s.Hardware
	if h == (Hardware{}) {
		return nil
	}
	path := spec.Child("hardware")
	atMost := func(name string, value, most int32) {
		errs = append(errs, between(path.Child(name), value, 0, most)...)
	}
	atMost("coresPerSocket", h.CoresPerSocket, MaxCPU)
	atMost("cpuReservationMHz", h.CPUReservationMHz, MaxMHz)
	atMost("cpuLimitMHz", h.CPULimitMHz, MaxMHz)
	atMost("memoryReservationMiB", h.MemoryReservationMiB, MaxMiB)
	atMost("memoryLimitMiB", h.MemoryLimitMiB, MaxMiB)
	atMost("bootDelaySeconds", h.BootDelaySeconds, MaxBootDelay)
	errs = append(errs, oneOf(path.Child("cpuShares"), h.CPUShares, SharesLow, SharesNormal, SharesHigh)...)
	errs = append(errs, oneOf(path.Child("memoryShares"), h.MemoryShares, SharesLow, SharesNormal, SharesHigh)...)
	invalid := func(is bool, at *field.Path, value int32, says string) {
		if is {
			errs = append(errs, field.Invalid(at, value, says))
		}
	}
	all := h.ReserveAllMemory != nil && *h.ReserveAllMemory
	invalid(h.CoresPerSocket > 0 && s.CPU%h.CoresPerSocket != 0, spec.Child("cpu"), s.CPU, "must be a multiple of hardware.coresPerSocket")
	invalid(h.CPULimitMHz > 0 && h.CPULimitMHz < h.CPUReservationMHz, path.Child("cpuLimitMHz"), h.CPULimitMHz, "must be at least the reservation")
	invalid(h.MemoryLimitMiB > 0 && h.MemoryLimitMiB < h.MemoryReservationMiB, path.Child("memoryLimitMiB"), h.MemoryLimitMiB, "must be at least the reservation")
	invalid(all && h.MemoryReservationMiB > 0, path.Child("memoryReservationMiB"), h.MemoryReservationMiB, "reserveAllMemory and memoryReservationMiB exclude each other: remove one of them")
	invalid(all && h.MemoryLimitMiB > 0, path.Child("memoryLimitMiB"), h.MemoryLimitMiB, "reserveAllMemory and memoryLimitMiB exclude each other: remove one of them")
	invalid(int64(h.MemoryReservationMiB) > int64(s.Memory)*1024, spec.Child("memory"), s.Memory, "must be at least hardware.memoryReservationMiB")
	return errs
}

// reservedKeys are beginnings of keys that spec.extraConfig cannot set, in any case: the guest's data and the server's stamp.
var reservedKeys = []string{"guestinfo.", "codeconnect.vmworld.com.vmgroup."}

// IsReservedKey reports whether a key of the VMX file is the server's.
func IsReservedKey(key string) bool {
	return slices.ContainsFunc(reservedKeys, func(prefix string) bool { return strings.HasPrefix(strings.ToLower(key), prefix) })
}

func validateExtraConfig(spec *field.Path, values map[string]string) field.ErrorList {
	errs := validateNamed(spec, "extraConfig", values, MaxExtraKey, MaxExtraValue)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if IsReservedKey(key) {
			errs = append(errs, field.Invalid(spec.Child("extraConfig"), bounded(key), "must not have keys that begin with "+strings.Join(reservedKeys, " or ")+", which the server sets"))
		}
	}
	return errs[:min(len(errs), maxReported)]
}
