// Package guest has what a member's guest is told of itself: by cloud-init's guestinfo, in extraConfig, or by a customization
// specification of vCenter. It promises that user data is never printed. It has no lock.
package guest
