package v1alpha1

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const excludes = "excludes reserveAllMemory and pciDevices, which reserve all memory: remove it"

func (s *VmGroupSpec) validateHardware(spec *field.Path) (errs field.ErrorList) {
	h := &s.Hardware
	if reflect.ValueOf(h).Elem().IsZero() {
		return nil
	}
	path := spec.Child("hardware")
	atMost := func(name string, value, most int32) {
		errs = append(errs, between(path.Child(name), value, 0, most)...)
	}
	atMost("version", h.Version, MaxHardwareVersion)
	atMost("coresPerSocket", h.CoresPerSocket, MaxCPU)
	atMost("cpuReservationMHz", h.CPUReservationMHz, MaxMHz)
	atMost("cpuLimitMHz", h.CPULimitMHz, MaxMHz)
	atMost("memoryReservationMiB", h.MemoryReservationMiB, MaxMiB)
	atMost("memoryLimitMiB", h.MemoryLimitMiB, MaxMiB)
	atMost("bootDelaySeconds", h.BootDelaySeconds, MaxBootDelay)
	errs = append(errs, oneOf(path.Child("bootFirst"), h.BootFirst, BootDisk, BootNetwork)...)
	errs = append(errs, validateShares(path.Child("cpuShares"), h.CPUShares)...)
	errs = append(errs, validateShares(path.Child("memoryShares"), h.MemoryShares)...)
	invalid := func(is bool, at *field.Path, value int32, says string) {
		if is {
			errs = append(errs, field.Invalid(at, value, says))
		}
	}
	all := h.ReserveAllMemory != nil && *h.ReserveAllMemory || len(h.PCIDevices) > 0
	invalid(h.CoresPerSocket > 0 && s.CPU%h.CoresPerSocket != 0, spec.Child("cpu"), s.CPU, "must be a multiple of hardware.coresPerSocket")
	invalid(h.CPULimitMHz > 0 && h.CPULimitMHz < h.CPUReservationMHz, path.Child("cpuLimitMHz"), h.CPULimitMHz, "must be at least the reservation")
	invalid(h.MemoryLimitMiB > 0 && h.MemoryLimitMiB < h.MemoryReservationMiB, path.Child("memoryLimitMiB"), h.MemoryLimitMiB, "must be at least the reservation")
	invalid(all && h.MemoryReservationMiB > 0, path.Child("memoryReservationMiB"), h.MemoryReservationMiB, excludes)
	invalid(all && h.MemoryLimitMiB > 0, path.Child("memoryLimitMiB"), h.MemoryLimitMiB, excludes)
	invalid(int64(h.MemoryReservationMiB) > int64(s.Memory)*1024, spec.Child("memory"), s.Memory, "must be at least hardware.memoryReservationMiB")
	if h.ReserveAllMemory != nil && !*h.ReserveAllMemory && len(h.PCIDevices) > 0 {
		errs = append(errs, field.Invalid(path.Child("reserveAllMemory"), false, "pciDevices need all memory reserved: remove it"))
	}
	return append(errs, validatePCIDevices(path.Child("pciDevices"), h.PCIDevices)...)
}

// validateShares checks a level or number of shares, which can be unset.
func validateShares(path *field.Path, shares *intstr.IntOrString) field.ErrorList {
	switch {
	case shares == nil, shares.Type == intstr.Int && shares.IntVal >= 1 && shares.IntVal <= MaxShares,
		shares.Type == intstr.String && slices.Contains([]string{SharesLow, SharesNormal, SharesHigh}, shares.StrVal):
		return nil
	}
	return field.ErrorList{field.Invalid(path, bounded(shares.String()), fmt.Sprintf("must be Low, Normal, High or a number from 1 to %d", MaxShares))}
}

// PCIDeviceID matches an entry of spec.hardware.pciDevices that is a vendor and device id. Other entries are vGPU profiles.
var PCIDeviceID = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`)

func validatePCIDevices(path *field.Path, all []string) (errs field.ErrorList) {
	if len(all) > MaxPCIDevices {
		return field.ErrorList{field.TooMany(path, len(all), MaxPCIDevices)}
	}
	for i, device := range all {
		switch {
		case device == "", strings.Contains(device, ":") && !PCIDeviceID.MatchString(device):
			errs = append(errs, field.Invalid(path.Index(i), bounded(device), "must be a vendor and device id in hexadecimal, such as 10de:1eb8, or a vGPU profile, such as grid_t4-4c"))
		case utf8.RuneCountInString(device) > MaxVGPUProfile:
			errs = append(errs, field.TooLongCharacters(path.Index(i), device, MaxVGPUProfile))
		}
	}
	return errs
}

// reservedKeys are prefixes, in upper or lower case, of keys that spec.extraConfig cannot set, because the server does: the guest's data
// and the server's stamp.
var reservedKeys = []string{"guestinfo.", "codeconnect.vmworld.com.vmgroup."}

// IsReservedKey reports whether only the server can set a key of the VMX file.
func IsReservedKey(key string) bool {
	return slices.ContainsFunc(reservedKeys, func(prefix string) bool { return strings.HasPrefix(strings.ToLower(key), prefix) })
}

func validateExtraConfig(spec *field.Path, values map[string]string) field.ErrorList {
	errs := validateNamed(spec, "extraConfig", values, MaxExtraKey, MaxExtraValue)
	lower := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if blankAtAnEnd(key) || strings.ContainsFunc(key, func(r rune) bool { return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) }) {
			errs = append(errs, field.Invalid(spec.Child("extraConfig"), bounded(key), "must not have keys with leading or trailing blanks, or with control characters or other invisible ones"))
		}
		if lower[strings.ToLower(key)] {
			errs = append(errs, field.Invalid(spec.Child("extraConfig"), bounded(key), "must not have two keys that differ in case only: they are one setting"))
		}
		lower[strings.ToLower(key)] = true
		if IsReservedKey(key) {
			errs = append(errs, field.Invalid(spec.Child("extraConfig"), bounded(key), "must not have keys that begin with "+strings.Join(reservedKeys, " or ")+", which the server sets"))
		}
	}
	return errs[:min(len(errs), maxReported)]
}
